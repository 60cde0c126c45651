"""Learned states under data parallelism: what each process has, and the mean over processes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

import dbsurf
from integrations.models import BITS, ESTIMATORS, PIXELS, Autoencoder, batches, optimiser

State = dict[str, torch.Tensor]


def sized() -> dbsurf.Estimator:
    return dbsurf.QuadraticCV(3, rank=2, size=BITS, context=PIXELS)


def trained(rank: int, *, broadcast: bool, average: bool) -> State:
    """The estimator's state after four steps, each rank with its own data."""
    model = Autoencoder(sized())
    wrapped = DistributedDataParallel(model, broadcast_buffers=broadcast)
    adam = optimiser(wrapped)
    for data in batches(10 * rank, 10 * rank + 4):
        adam.zero_grad()
        wrapped(data)["loss"].backward()
        adam.step()
        if average:
            dbsurf.average_states(model)
    found = {name: value.clone() for name, value in model.estimator.state_dict().items()}
    return found | {"encoder": model.encoder.weight.detach().clone()}


def alone(rank: int) -> State:
    return trained(rank, broadcast=False, average=False)


def averaged(rank: int) -> State:
    return trained(rank, broadcast=True, average=True)


def means(rank: int) -> State:
    """Before and after, for an estimator of every kind of state."""
    found = {}
    for name, build in ESTIMATORS.items():
        model = Autoencoder(build())
        for data in batches(10 * rank, 10 * rank + 2):
            model(data)["loss"].backward()
        before = {k: v.clone() for k, v in model.estimator.state_dict().items()}
        dbsurf.average_states(model.estimator)
        for key, value in model.estimator.state_dict().items():
            found[f"{name}/{key}/before"] = before[key]
            found[f"{name}/{key}/after"] = value
    return found


def different(rank: int) -> State:
    """One rank has built its state, the other has not."""
    estimator = sized() if rank else dbsurf.QuadraticCV(3, rank=2)
    with pytest.raises(ValueError, match="the same state in all processes"):
        dbsurf.average_states(estimator)
    return {}


def run(rank: int, folder: Path) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meet'}", rank=rank, world_size=2
    )
    found = {work.__name__: work(rank) for work in (alone, averaged, means, different)}
    torch.save(found, folder / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, State]]:
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(run, (folder,), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_without_averaging_each_process_learns_alone(ranks):
    one, two = (rank["alone"] for rank in ranks)
    assert torch.equal(one["encoder"], two["encoder"])
    assert not torch.equal(one["within.sums"], two["within.sums"])


def test_with_averaging_all_processes_have_one_state(ranks):
    one, two = (rank["averaged"] for rank in ranks)
    for name, value in one.items():
        assert torch.equal(value, two[name]), name


def test_the_mean_over_processes(ranks):
    one, two = (rank["means"] for rank in ranks)
    assert one
    for name, value in one.items():
        if name.endswith("after"):
            before = name.replace("after", "before")
            expected = one[before]
            if value.is_floating_point():
                expected = (one[before] + two[before]) / 2
            torch.testing.assert_close(value, expected, rtol=1e-6, atol=0)
            assert torch.equal(value, two[name])


def test_states_of_different_sizes_are_refused(ranks):
    assert all(rank["different"] == {} for rank in ranks)


def test_without_processes_it_is_an_error():
    with pytest.raises(ValueError, match="init_process_group, got no process group"):
        dbsurf.average_states(dbsurf.LOORF(2))
