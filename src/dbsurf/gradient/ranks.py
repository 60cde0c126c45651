"""Learned states of several processes made one."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed, nn

from dbsurf.gradient.estimator import Estimator


@torch.no_grad()
def average_states(module: nn.Module, *, process_group: Any = None) -> None:
    r"""Replace what estimators have learned by the mean over all processes.

    Under data parallelism every process has its own samples, so every process learns its own
    control variate; nothing in torch averages it, because gradients are averaged and states are
    not. Each is right by itself, and the gradient stays unbiased. The mean is fitted to all data.
    Call it in all processes after every step, or every few steps. The gradient stays unbiased: the
    state is read before the next samples are drawn.

    With the estimator *inside* a module wrapped by `DistributedDataParallel`, torch copies the
    buffers of the first process to all others at every forward (``broadcast_buffers=True``). What
    the others learned is then lost, unless this function is called after the backward pass.

    Args:
        module: an estimator, or a module that has some; all floating-point buffers of its
            estimators, and the parameters of a network that RELAX was given, are averaged.
        process_group: of torch.distributed; None for all processes.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        raise ValueError(
            "average_states must be called after torch.distributed.init_process_group, got no "
            "process group"
        )
    estimators = [part for part in module.modules() if isinstance(part, Estimator)]
    states = [state for one in estimators for state in [*one.parameters(), *one.buffers()]]
    unique = {id(state): state for state in states if state.is_floating_point()}
    count = distributed.get_world_size(process_group)
    # Processes must agree on what is averaged: a state that one of them has not built yet hangs.
    sizes = torch.tensor([sum(state.numel() for state in unique.values())], dtype=torch.int64)
    if unique:
        sizes = sizes.to(next(iter(unique.values())).device)
    every = [torch.zeros_like(sizes) for _ in range(count)]
    distributed.all_gather(every, sizes, group=process_group)
    if len({int(size) for size in every}) != 1:
        raise ValueError(
            "estimators must have the same state in all processes, got "
            f"{', '.join(str(int(size)) for size in every)} numbers; call each once or build them "
            "with size="
        )
    for state in unique.values():
        distributed.all_reduce(state, group=process_group)
        state.div_(count)
