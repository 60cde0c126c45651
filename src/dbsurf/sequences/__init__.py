"""Groups of autoregressive samples, group baselines, trajectories."""

from dbsurf.sequences.advantages import advantages, squared_scores
from dbsurf.sequences.arithmetic import ArithmeticGroup
from dbsurf.sequences.baselines import (
    RunningMean,
    group_mean,
    leave_one_out,
    other_groups,
    peer_mean,
    prefix_mean,
    standardised,
)
from dbsurf.sequences.beam import BeamStep, StochasticBeam, without_replacement_loss
from dbsurf.sequences.codes import (
    AntitheticGroup,
    Branching,
    Codes,
    Group,
    IIDGroup,
    SystematicGroup,
)
from dbsurf.sequences.policy_loss import policy_loss
from dbsurf.sequences.samples import Samples
from dbsurf.sequences.trajectories import (
    rewards_to_go,
    sequence_loss,
    token_log_probs,
    trajectory_loss,
)

__all__ = [
    "AntitheticGroup",
    "ArithmeticGroup",
    "BeamStep",
    "Branching",
    "Codes",
    "Group",
    "IIDGroup",
    "RunningMean",
    "Samples",
    "StochasticBeam",
    "SystematicGroup",
    "advantages",
    "group_mean",
    "leave_one_out",
    "other_groups",
    "peer_mean",
    "policy_loss",
    "prefix_mean",
    "rewards_to_go",
    "sequence_loss",
    "squared_scores",
    "standardised",
    "token_log_probs",
    "trajectory_loss",
    "without_replacement_loss",
]

_RENAMED = {"IID": "IIDGroup", "Antithetic": "AntitheticGroup"}
_RENAMED |= {"Systematic": "SystematicGroup", "Arithmetic": "ArithmeticGroup"}


def __getattr__(name: str) -> object:
    """Names of version 0.1 give an error that says the new one."""
    if name in _RENAMED:
        raise AttributeError(f"dbsurf.sequences.{name} is now called {_RENAMED[name]}")
    raise AttributeError(f"module 'dbsurf.sequences' has no attribute {name!r}")
