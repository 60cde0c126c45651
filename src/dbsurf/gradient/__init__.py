"""The machinery behind every estimator: the pipeline, autograd, f as people have it, fitting."""
