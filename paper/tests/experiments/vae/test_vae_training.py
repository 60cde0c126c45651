"""Random streams, order and binarisation of the training images."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dbsurf
from dbsurf_paper.experiments.vae.model import DiscreteVAE
from dbsurf_paper.experiments.vae.training import (
    Batches,
    Streams,
    binarise,
    count_evaluations,
    mean_image,
)
from ztests import assert_mean

CPU = torch.device("cpu")


def test_a_pixel_is_one_with_its_probability():
    pixels = torch.arange(256, dtype=torch.uint8)
    draws = torch.stack([binarise(pixels, None) for _ in range(4000)])
    assert set(draws.unique().tolist()) == {0.0, 1.0}
    assert_mean(draws, pixels.double() / 255)
    assert (draws[:, 0] == 0).all()
    assert (draws[:, 255] == 1).all()


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (2, 784)])
def test_any_number_of_pixels(shape):
    assert binarise(torch.full(shape, 255, dtype=torch.uint8), None).shape == shape


def white(count: int) -> np.ndarray:
    """Images that are told apart by which of their pixels is white."""
    return np.eye(count, dtype=np.uint8)[:, None, :] * 255


def test_every_epoch_is_a_new_order_of_all_images():
    batches = Batches(white(10), 3, Streams.seeded(0, CPU), CPU)
    epochs = [torch.cat([batches.next() for _ in range(3)]).argmax(-1).tolist() for _ in range(20)]
    assert all(len(set(epoch)) == 9 for epoch in epochs)  # none twice, one left out
    assert len({tuple(epoch) for epoch in epochs}) == 20
    assert len({(set(range(10)) - set(epoch)).pop() for epoch in epochs}) > 3


def test_state_continues_in_the_middle_of_an_epoch():
    first, second = Streams.seeded(0, CPU), Streams.seeded(1, CPU)
    one, other = (Batches(white(10), 3, streams, CPU) for streams in (first, second))
    one.next()
    other.order.load_state_dict(one.order.state_dict())
    second.load_state_dict(first.state_dict())
    for _ in range(7):
        assert torch.equal(one.next(), other.next())


def test_streams_differ_from_each_other_and_by_seed():
    def numbers(seed: int) -> list[float]:
        streams = Streams.seeded(seed, CPU)
        generators = (streams.weights, streams.order, streams.binarisation, streams.samples)
        return [torch.rand(1, generator=generator).item() for generator in generators]

    assert len({*numbers(0), *numbers(1)}) == 8
    assert numbers(0) == numbers(0)


def test_one_stream_does_not_move_another():
    """More random numbers for the estimator leave images and pixels as they are."""
    grey = np.full((10, 4, 4), 128, dtype=np.uint8)
    one, other = Streams.seeded(3, CPU), Streams.seeded(3, CPU)
    left, right = Batches(grey, 3, one, CPU), Batches(grey, 3, other, CPU)
    for draws in range(5):
        assert torch.equal(left.next(), right.next())
        torch.rand(draws, generator=one.samples)


def test_mean_image():
    images = np.array([[[0, 255]], [[255, 255]], [[0, 51]]], dtype=np.uint8)
    torch.testing.assert_close(mean_image(images), torch.tensor([1 / 3, 2.2 / 3]))


def test_evaluations_of_f_are_counted_where_they_are_not_known_beforehand():
    model = DiscreteVAE(torch.full((6,), 0.5), latents=3, hidden=4)
    assert count_evaluations(model, dbsurf.LOORF(4)) == 4
    assert count_evaluations(model, dbsurf.QuadraticCV(4)) == 5
    assert count_evaluations(model, dbsurf.Exact()) == 2**3
    rows = []
    estimator = dbsurf.get("localexpectation", 4)
    logits = torch.zeros(1, 3)

    def f(z: torch.Tensor) -> torch.Tensor:
        rows.append(z.shape[0])
        return z.sum(-1)

    estimator.estimate(f, model.posterior(logits), generator=torch.Generator().manual_seed(1))
    assert count_evaluations(model, estimator) == sum(rows)
    assert estimator.training
