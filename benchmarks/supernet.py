"""Memory and time of a supernet step: what is held for backward, and by how many paths.

Run with `python benchmarks/supernet.py`. Each line is `name ratio target ok|short`. Bytes are those
of tensors that autograd holds, weights left out, at their peak, counted as they come and go;
times are medians of one interleaved run on one thread. `--methods` instead prints both for a step
of every search method, over a step that trains one path on one batch; there is no target.
`--paper` also counts a step at the size of the paper (C = 16, N = 5, 128 images of 32x32), which
takes a minute. Exits with status 1 if any is short.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable

import torch
from ledger import Ledger
from ratios import medians, report
from torch import Tensor, nn

import dbsurf
from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.supernet.architecture import (
    Architecture,
    Batching,
    CellLosses,
    loss,
)
from dbsurf_paper.experiments.nas.supernet.images import Batches, Standard
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.experiments.nas.supernet.methods.base import Member
from dbsurf_paper.experiments.nas.supernet.network import SharedCell, Supernet
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
from dbsurf_paper.experiments.nas.supernet.training import Schedule, Trainer
from dbsurf_paper.experiments.nas.supernet.workers import Workers

N = 5
PATH = (3, 4, 1, 2, 3, 0)


def with_operations(network: Supernet, change: Callable[[SharedCell], nn.Module]) -> Supernet:
    """A copy of the network whose cells are changed."""
    changed = copy.deepcopy(network)
    changed.stages = nn.ModuleList(
        nn.ModuleList(change(cell) for cell in stage) for stage in changed.stages
    )
    return changed


def only_sampled(cell: SharedCell) -> SharedCell:
    for edge, chosen in zip(cell.edges, PATH, strict=True):
        for name in [name for name in edge if name != space.OPERATIONS[chosen]]:
            del edge[name]
    return cell


def four_times_as_many(cell: SharedCell) -> SharedCell:
    for edge in cell.edges:
        for name, operation in list(edge.items()):
            for number in range(3):
                edge[f"{name}_{number}"] = copy.deepcopy(operation)
    return cell


def path_bytes(network: Supernet, images: Tensor, labels: Tensor) -> int:
    """Held by one path."""
    with Ledger(network).open() as ledger:
        value = loss(network(images, PATH), labels)
    assert value.requires_grad
    return ledger.peak


def step(network: Supernet, images: Tensor, labels: Tensor, batching: Batching) -> None:
    """n paths of a uniform architecture, always the same ones, forward and backward."""
    architecture = Architecture()
    losses = CellLosses(lambda path: loss(network(images, path), labels), network.edges, batching)
    value = dbsurf.DBsurf(N, validate=False)(
        lambda samples: losses(architecture.whole_cells(samples)),
        architecture.distribution(),
        generator=torch.Generator().manual_seed(0),
    )
    value.backward()


def step_bytes(network: Supernet, images: Tensor, labels: Tensor, batching: Batching) -> int:
    with Ledger(network).open() as ledger:
        step(network, images, labels, batching)
    return ledger.peak


def data(size: int, batch: int) -> tuple[Tensor, Tensor]:
    images = torch.randn(batch, 3, size, size).contiguous(memory_format=torch.channels_last)
    return images, torch.arange(batch) % 10


def supernet(channels: int, cells: int) -> Supernet:
    network = Supernet(10, channels=channels, cells=cells)
    return network.to(memory_format=torch.channels_last)


def main(paper: bool) -> bool:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network, batch = supernet(8, 1), data(16, 64)
    one = path_bytes(network, *batch)
    few = path_bytes(with_operations(network, only_sampled), *batch)
    many = path_bytes(with_operations(network, four_times_as_many), *batch)
    together = step_bytes(network, *batch, "together")
    single = step_bytes(network, *batch, "one-by-one")
    print(f"C = 8, N = 1, 64 images of 16x16; one path holds {one / 2**20:.2f} MiB")
    outcomes = [
        report("path in 5 operations an edge / in its own alone", one / few, 1.0),
        report("path in 20 operations an edge / in its own alone", many / few, 1.0),
        report("5 paths one by one / together, bytes", single / together, 0.5),
    ]
    time = medians(
        {
            batching: lambda batching=batching: step(network, *batch, batching)
            for batching in ("together", "one-by-one")
        },
        seconds=20,
    )
    ratio = time["one-by-one"] / time["together"]
    outcomes.append(report("5 paths one by one / together, time", ratio, 1.1))
    if paper:
        network, batch = supernet(16, 5), data(32, 128)
        together = step_bytes(network, *batch, "together")
        single = step_bytes(network, *batch, "one-by-one")
        print(
            f"C = 16, N = 5, 128 images of 32x32; 5 paths: together {together / 2**20:.0f} MiB, "
            f"one by one {single / 2**20:.0f} MiB"
        )
        outcomes.append(report("5 paths one by one / together, bytes", single / together, 0.5))
    return all(outcomes)


# --- every method over one path -------------------------------------------------------------------

SEARCHERS = {
    "one path": SupernetOptions(estimator="loorf", path_batching="one-by-one"),
    "sampled, 5 paths one by one": SupernetOptions(path_batching="one-by-one"),
    "sampled, 5 paths together": SupernetOptions(),
    **{name: SupernetOptions(method=name) for name in METHODS if name != "sampled"},
    "darts, second order": SupernetOptions(method="darts", order=2),
    "drnas, progressive, first half": SupernetOptions(method="drnas", progressive=True),
}


def trainer(options: SupernetOptions, channels: int) -> Trainer:
    """A search in its first step after the warm-up, on random images."""
    torch.manual_seed(0)
    method = options.build_method()
    network = Supernet(10, channels=channels, cells=1, share=method.share)
    network.take_parts(method.parts)
    network = network.to(memory_format=torch.channels_last)
    members = [
        Member(copy.deepcopy(network), method.architecture(), 1e-3) for _ in range(method.members)
    ]
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (256, 3, 16, 16), dtype=torch.uint8, generator=generator)
    batches = Batches(images, torch.arange(256) % 10, 64, generator, padding=2)
    validation = Batches(images, torch.arange(256) % 10, 64, generator, padding=2)
    return Trainer(
        method,
        members,
        batches,
        validation if method.validation else None,
        Standard(images),
        Schedule(1e-3, 0, 10**6, 10**6),
        Workers(torch.device("cpu")),
    )


def methods(seconds: float) -> None:
    """Peak bytes and median time of a step of every method, over those of one path."""
    torch.set_num_threads(1)
    trainers = {name: trainer(options, 8) for name, options in SEARCHERS.items()}
    trainers["one path"].members[0].architecture.fixed.copy_(torch.tensor(PATH))
    held = {}
    for name, one in trainers.items():
        one.step()  # a split happens here
        ledger = Ledger(nn.ModuleList(member.network for member in one.members))
        with ledger.open():
            for _ in range(5):
                one.step()
        held[name] = ledger.peak
    times = medians({name: one.step for name, one in trainers.items()}, seconds=seconds)
    print(f"{'a step over one of one path':<40} {'bytes':>6} {'time':>6}")
    for name in trainers:
        ratios = held[name] / held["one path"], times[name] / times["one path"]
        print(f"{name:<40} {ratios[0]:6.2f} {ratios[1]:6.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paper", action="store_true", help="also at the size of the paper")
    parser.add_argument("--methods", action="store_true", help="every search method instead")
    parser.add_argument("--seconds", type=float, default=60, help="of timing every method")
    arguments = parser.parse_args()
    if arguments.methods:
        methods(arguments.seconds)
        raise SystemExit(0)
    raise SystemExit(0 if main(arguments.paper) else 1)
