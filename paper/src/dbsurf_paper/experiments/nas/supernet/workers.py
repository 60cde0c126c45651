"""The processes that share a run: one in plain torch, several by Lightning Fabric.

All processes draw the same random numbers. So they agree on the batch, of which each takes its
part, and on the cells, which all of them evaluate. What they exchange: losses, gradients, and the
sums inside batch normalisation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, distributed
from torch.optim import Optimizer

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Precision = Literal["32", "16-mixed", "bf16-mixed"]


class Workers:
    """What training needs from its processes; this class is for one process in single precision.

    Attributes:
        device: the device of this process.
        rank: number of this process; process 0 writes files and tells the others what to do.
        count: how many there are.
        scaler: keeps half-precision gradients within their range; does nothing otherwise.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.rank, self.count = device, 0, 1
        self.scaler = torch.amp.GradScaler(device.type, enabled=False)

    def precision(self) -> AbstractContextManager[Any]:
        """A context in which the network computes in the chosen precision."""
        return nullcontext()

    def part(self, batch: Tensor) -> Tensor:
        """This process's part of a batch."""
        return batch

    def mean(self, value: Tensor) -> Tensor:
        """The mean of a value over the processes; its gradient is this process's own."""
        return value

    def share(self, values: Sequence[Tensor]) -> None:
        """Replace values by their means over the processes, in place."""

    def share_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace the gradients that exist by their mean over the processes."""
        self.share([value.grad for value in parameters if value.grad is not None])

    def tell(self, order: int) -> None:
        """Process 0 sends a number to the others: 0 means that nothing follows."""

    def told(self) -> int:
        """Receive the number that process 0 sends."""
        return 0

    def backward(self, value: Tensor, inputs: Sequence[Tensor] | None = None) -> None:
        """Backward pass, with loss scaling if the precision needs it.

        Args:
            value: what is differentiated.
            inputs: where gradients are added; None: everywhere.
        """
        self.scaler.scale(value).backward(inputs=inputs)

    def step(self, *optimisers: Optimizer) -> None:
        """One step of each optimiser, with the loss scaling undone."""
        for optimiser in optimisers:
            self.scaler.step(optimiser)
        self.scaler.update()


class FabricWorkers(Workers):
    """Processes started by Fabric, in any precision that it knows.

    The network is not wrapped in DDP: a cell leaves most weights without a gradient, and every
    process knows which ones. Only the gradients that exist are exchanged, once in each step.

    Args:
        fabric: launched already.
        precision: the one that ``fabric`` was made with.
    """

    def __init__(self, fabric: Fabric, precision: Precision) -> None:
        super().__init__(fabric.device)
        self.rank, self.count = fabric.global_rank, fabric.world_size
        self._fabric = fabric
        half = precision == "16-mixed"
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=half)

    def precision(self) -> AbstractContextManager[Any]:
        return self._fabric.autocast()

    def part(self, batch: Tensor) -> Tensor:
        return batch.chunk(self.count)[self.rank]

    def mean(self, value: Tensor) -> Tensor:
        if self.count == 1:
            return value
        whole = value.detach().clone()
        distributed.all_reduce(whole)
        return value + (whole / self.count - value.detach())

    def share(self, values: Sequence[Tensor]) -> None:
        if self.count == 1 or not values:
            return
        joined = torch.cat([value.reshape(-1) for value in values])
        distributed.all_reduce(joined)
        joined /= self.count
        parts = joined.split([value.numel() for value in values])
        for value, part in zip(values, parts, strict=True):
            value.copy_(part.view(value.shape))

    def tell(self, order: int) -> None:
        if self.count > 1 and self.rank == 0:
            distributed.broadcast(torch.tensor([order], device=self.device), 0)

    def told(self) -> int:
        order = torch.zeros(1, dtype=torch.int64, device=self.device)
        distributed.broadcast(order, 0)
        return int(order.item())

    def leave(self) -> None:
        """End the connection, after the last exchange; all processes must call it.

        gloo's threads may otherwise hold a tensor while Python ends, which aborts the process.
        """
        if distributed.is_initialized():
            distributed.destroy_process_group()
