"""From pieces to sets: CIFAR's three packings, Omniglot's tiles, chardata's columns, the splits."""

from __future__ import annotations

import numpy as np
import pytest

from dbsurf_paper.data import assemble

RANDOM = np.random.default_rng(1)


def test_cifar_from_binary_records_and_from_rows_is_the_same():
    images = RANDOM.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    labels = RANDOM.integers(0, 10, 12, dtype=np.uint8)
    records = np.concatenate([labels[:, None], images.transpose(0, 3, 1, 2).reshape(12, -1)], 1)
    binary = {f"cifar/data_batch_{i + 1}.bin": records[2 * i : 2 * i + 2] for i in range(5)}
    binary["cifar/test_batch.bin"] = records[10:]
    rows = {
        f"package/data_batch_{i + 1}.png": images[2 * i : 2 * i + 2].reshape(2, 1024, 3)
        for i in range(5)
    }
    rows["package/test_batch.png"] = images[10:].reshape(2, 1024, 3)
    rows |= {"package/train_lables.json": labels[:10].astype(np.int64)}
    rows |= {"package/test_lables.json": labels[10:].astype(np.int64)}
    for pieces in (binary, rows):
        found = assemble.cifar_batches(pieces)
        np.testing.assert_array_equal(found["x_train"], images[:10])
        np.testing.assert_array_equal(found["x_test"], images[10:])
        np.testing.assert_array_equal(found["y_train"], labels[:10])
        np.testing.assert_array_equal(found["y_test"], labels[10:])
        assert found["y_test"].dtype == np.uint8
    del rows["package/data_batch_3.png"]
    assert assemble.cifar_batches(rows) is None


def test_tiles_are_cut_row_by_row():
    images = RANDOM.integers(0, 256, (40, 28, 28), dtype=np.uint8)
    picture = np.block([[images[20 * r + c] for c in range(20)] for r in range(2)])
    np.testing.assert_array_equal(assemble.tiles(picture), images)
    np.testing.assert_array_equal(assemble.tiles(np.stack([picture] * 3, -1)), images)
    np.testing.assert_array_equal(assemble.tiles(images), images)


def test_chardata_has_one_image_a_column():
    images = RANDOM.integers(0, 256, (7, 28, 28), dtype=np.uint8)
    columns = (images / 255).reshape(7, 784).T
    found = assemble.chardata({"data": columns, "testdata": columns[:, :3], "target": columns})
    np.testing.assert_array_equal(found["x_train"], images)
    np.testing.assert_array_equal(found["x_test"], images[:3])
    assert assemble.chardata({"data": columns}) is None


def test_digits_take_turns():
    labels = np.repeat(np.arange(10, dtype=np.uint8), 500)
    images = np.broadcast_to(labels[:, None, None], (5000, 28, 28))
    train, test = assemble.class_by_class({"images": images})
    assert len(train) == 4000
    assert len(test) == 1000
    for part in (train, test):
        np.testing.assert_array_equal(part[:, 0, 0], np.arange(len(part)) % 10)


def test_omniglot_split_has_the_usual_sizes_and_no_overlap():
    numbers = np.arange(32_460)
    images = np.zeros((32_460, 28, 28), np.uint8)
    images[:, 0, 0], images[:, 0, 1] = numbers // 256, numbers % 256
    train, test = assemble.three_of_four(
        {"background": images[:19_280], "evaluation": images[19_280:]}
    )
    ids = [part[:, 0, 0].astype(int) * 256 + part[:, 0, 1] for part in (train, test)]
    assert (len(ids[0]), len(ids[1])) == (24_345, 8_070)
    assert not set(ids[0]) & set(ids[1])


def test_two_candidates_are_no_candidate():
    pieces = {"a/train-images": RANDOM.random(3), "b/train-images": RANDOM.random(3)}
    assert assemble.find(pieces, "train-images") is None


@pytest.mark.parametrize("shape", [(5, 28, 28), (5, 784), (784, 5)])
def test_images_in_any_layout(shape):
    assert assemble.as_images(np.zeros(shape)).shape == (5, 28, 28)
