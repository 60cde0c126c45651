"""Adapters to other libraries, each imported only when asked for.

They need `pip install dbsurf[integrations]`.

`dbsurf.integrations.language`: completions of a Hugging Face causal model, drawn in groups.
`dbsurf.integrations.trl`: baselines for TRL's `GRPOTrainer` and `RLOOTrainer`.
`dbsurf.integrations.verl`: baselines in the form that verl's registry takes.
`dbsurf.integrations.pyro`: an ELBO for Pyro with any estimator.
"""
