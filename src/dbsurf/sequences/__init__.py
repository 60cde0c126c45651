"""Groups of autoregressive samples, group baselines, trajectories."""

from dbsurf.sequences.advantages import advantages, squared_scores
from dbsurf.sequences.arithmetic import Arithmetic
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
from dbsurf.sequences.codes import IID, Antithetic, Branching, Codes, Group, Systematic
from dbsurf.sequences.samples import Samples, policy_loss
from dbsurf.sequences.trajectories import (
    rewards_to_go,
    sequence_loss,
    token_log_probs,
    trajectory_loss,
)

__all__ = [
    "IID",
    "Antithetic",
    "Arithmetic",
    "BeamStep",
    "Branching",
    "Codes",
    "Group",
    "RunningMean",
    "Samples",
    "StochasticBeam",
    "Systematic",
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
