"""Order, binarisation and the state of the training data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import assert_mean
from dbsurf.experiments.vae.batches import Batches, binarise, mean_image

CPU = torch.device("cpu")


def test_a_pixel_is_one_with_its_probability():
    pixels = torch.arange(256, dtype=torch.uint8)
    draws = torch.stack([binarise(pixels, None) for _ in range(4000)])
    assert set(draws.unique().tolist()) == {0.0, 1.0}
    assert_mean(draws, pixels.double() / 255)
    assert (draws[:, 0] == 0).all()
    assert (draws[:, 255] == 1).all()


def test_pixels_are_independent():
    """Neighbours share a random word; their bits must not show it."""
    half = torch.full((20_000, 8), 128, dtype=torch.uint8)
    draws = binarise(half, torch.Generator().manual_seed(0)) - 128 / 255
    products = draws.unsqueeze(1) * draws.unsqueeze(2)
    assert_mean(products.flatten(1), (torch.eye(8) * (128 / 255) * (127 / 255)).flatten())


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (2, 784)])
def test_any_number_of_pixels(shape):
    assert binarise(torch.full(shape, 255, dtype=torch.uint8), None).shape == shape


def white(count: int) -> np.ndarray:
    """Images that are told apart by which of their pixels is white."""
    return np.eye(count, dtype=np.uint8)[:, None, :] * 255


def test_every_epoch_is_a_new_order_of_all_images():
    batches = Batches(white(10), 3, torch.Generator().manual_seed(0), CPU)
    epochs = [torch.cat([batches.next() for _ in range(3)]).argmax(-1).tolist() for _ in range(20)]
    assert all(len(set(epoch)) == 9 for epoch in epochs)  # none twice, one left out
    assert len({tuple(epoch) for epoch in epochs}) == 20
    assert len({(set(range(10)) - set(epoch)).pop() for epoch in epochs}) > 3


def test_state_continues_in_the_middle_of_an_epoch():
    one, other = (Batches(white(10), 3, torch.Generator().manual_seed(s), CPU) for s in (0, 1))
    one.next()
    other.load_state_dict(one.state_dict())
    other.generator.set_state(one.generator.get_state())
    for _ in range(7):
        assert torch.equal(one.next(), other.next())


def test_mean_image():
    images = np.array([[[0, 255]], [[255, 255]], [[0, 51]]], dtype=np.uint8)
    torch.testing.assert_close(mean_image(images), torch.tensor([1 / 3, 2.2 / 3]))
