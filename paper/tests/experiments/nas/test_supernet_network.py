"""The supernet is the benchmark's network, and only what a path names is computed."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, distributed, nn

from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.supernet.edges import alive
from dbsurf_paper.experiments.nas.supernet.network import (
    BatchNorm,
    SharedCell,
    Supernet,
    synchronise,
)

f64 = torch.float64
NONE, SKIP, CONV1, CONV3, POOL = range(5)


def operations(network: nn.Module) -> dict[str, nn.Module]:
    """Everything that a path can choose, by stage, cell, edge and name."""
    return {
        name: module
        for name, module in network.named_modules()
        if name.split(".")[-1] in space.OPERATIONS
    }


@pytest.mark.parametrize(("index", "count"), [(0, 129_306), (11, 802_426), (284, 101_306)])
def test_a_path_has_the_parameters_that_the_benchmark_publishes(index, count):
    """The benchmark's cells have a scale and a shift behind each convolution, ours have none."""
    network = Supernet(10, channels=16, cells=5)
    fixed = (network.stem, network.reductions, network.head)
    found = sum(value.numel() for part in fixed for value in part.parameters())
    for cell in (cell for stage in network.stages for cell in stage):
        for edge, operation in zip(cell.edges, space.from_index(index), strict=True):
            if operation != NONE:
                for weight in edge[space.OPERATIONS[operation]].parameters():
                    found += weight.numel() + 2 * weight.shape[0]
    assert found == count


@pytest.mark.parametrize(("colours", "size"), [(3, 32), (3, 16), (1, 28), (1, 7)])
def test_logits_for_images_of_any_size(colours, size):
    network = Supernet(7, channels=2, cells=2, inputs=colours)
    assert network(torch.randn(3, colours, size, size), (CONV3,) * 6).shape == (3, 7)


def reference(cell: SharedCell, x: Tensor, path: tuple[int, ...]) -> Tensor:
    """Every edge computed, "none" being a product with 0."""
    nodes = [x, *(torch.zeros_like(x) for _ in range(3))]
    for (source, target), edge, operation in zip(cell.graph, cell.edges, path, strict=True):
        if operation != NONE:
            nodes[target] = nodes[target] + edge[space.OPERATIONS[operation]](nodes[source])
    return nodes[3]


def test_what_is_left_out_makes_no_difference():
    cell = SharedCell(2).double()
    x = torch.randn(4, 2, 5, 5, dtype=f64)
    for path in itertools.islice(itertools.product(range(5), repeat=6), 0, None, 61):
        torch.testing.assert_close(cell(x, path), reference(cell, x, path), rtol=0, atol=1e-12)


def test_edges_that_cannot_matter():
    assert alive((CONV3, NONE, NONE, SKIP, NONE, NONE)) == (NONE, NONE, NONE, SKIP, NONE, NONE)
    assert alive((NONE, NONE, CONV3, SKIP, CONV3, CONV3)) == (NONE, NONE, NONE, SKIP, NONE, NONE)
    assert alive((CONV3,) * 6) == (CONV3,) * 6
    assert alive((CONV3, CONV3, CONV3, NONE, NONE, NONE)) == (NONE,) * 6


def test_a_cell_that_is_cut_gives_nothing():
    x = torch.randn(2, 3, 4, 4)
    assert (SharedCell(3)(x, (CONV3, CONV3, CONV3, NONE, NONE, NONE)) == 0).all()


@pytest.mark.parametrize("path", [(CONV3, POOL, SKIP, NONE, CONV1, CONV3), (CONV1,) * 6])
def test_operations_that_were_not_sampled_are_neither_computed_nor_held(path):
    network = Supernet(10, channels=4, cells=2)
    called: list[str] = []
    for name, module in operations(network).items():
        module.register_forward_hook(lambda *_, name=name: called.append(name))
    held = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal held
        held += 1
        return tensor

    images = torch.randn(4, 3, 8, 8)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network(images, path).square().mean()
    expected = {
        f"stages.{stage}.{cell}.edges.{edge}.{space.OPERATIONS[operation]}"
        for stage, cell, (edge, operation) in itertools.product(range(3), range(2), enumerate(path))
        if operation != NONE
    }
    assert sorted(called) == sorted(expected)  # each once
    for module in (m for name, m in operations(network).items() if name not in expected):
        for value in module.parameters():
            value.requires_grad_(False)  # of no consequence for what is held ...
    before, held = held, 0
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        network(images, path).square().mean()
    assert held == before
    loss.backward()  # ... nor for gradients, which the others do not get
    for name, module in operations(network).items():
        for value in module.parameters():
            assert (value.grad is not None) == (name in expected)


@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm_is_torchs_on_the_batch(affine):
    x = torch.randn(5, 3, 4, 4, dtype=f64)
    ours, theirs = BatchNorm(3, affine=affine), nn.BatchNorm2d(3, affine=affine)
    torch.testing.assert_close(ours.double()(x), theirs.double()(x))
    assert (BatchNorm(3, affine=False)(torch.zeros(5, 3, 4, 4)) == 0).all()
    assert not list(ours.buffers())


def test_statistics_over_a_group_of_one_are_its_own():
    """The way through the process group; with two processes see test_supernet_workers."""
    x = torch.randn(5, 3, 4, 4, dtype=f64)
    results = []
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    try:
        for joined in (False, True):
            norm = BatchNorm(3, affine=True).double()
            with torch.no_grad():
                norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
            synchronise(nn.Sequential(norm), joined)
            inputs = x.clone().requires_grad_()
            outputs = norm(inputs)
            outputs.pow(3).sum().backward()
            results.append((outputs.detach(), inputs.grad, norm.weight.grad, norm.bias.grad))
    finally:
        distributed.destroy_process_group()
    for plain, through_the_group in zip(*results, strict=True):
        torch.testing.assert_close(plain, through_the_group)
