"""Files are read by what is in them, and nothing in them is run."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from dbsurf_paper.data import formats

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 4, 5), dtype=np.uint8)


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.tobytes()


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def png(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "png")
    return buffer.getvalue()


def tar(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_idx_plain_and_compressed(tmp_path):
    for name, content in (("a-ubyte", idx(IMAGES)), ("a-ubyte.gz", gzip.compress(idx(IMAGES)))):
        (tmp_path / name).write_bytes(content)
        found = formats.read(tmp_path / name)
        assert list(found) == ["a-ubyte"]
        np.testing.assert_array_equal(found["a-ubyte"], IMAGES)


def test_idx_of_wide_numbers():
    array = np.array([[1, -2], [300, 4]], ">i4")
    head = bytes([0, 0, 0x0C, 2]) + np.array(array.shape, ">u4").tobytes()
    np.testing.assert_array_equal(
        formats.parse("a-ubyte", head + array.tobytes())["a-ubyte"], array
    )


def test_npz_and_mat(tmp_path):
    (tmp_path / "a.npz").write_bytes(npz(x_train=IMAGES, y=IMAGES[0]))
    found = formats.read(tmp_path / "a.npz")
    np.testing.assert_array_equal(found["x_train"], IMAGES)
    np.testing.assert_array_equal(found["y"], IMAGES[0])
    savemat(tmp_path / "b.mat", {"data": IMAGES / 255})
    np.testing.assert_array_equal(formats.read(tmp_path / "b.mat")["data"], IMAGES / 255)


def test_png_csv_and_labels():
    np.testing.assert_array_equal(formats.parse("p", png(IMAGES[0]))["p"], IMAGES[0])
    np.testing.assert_array_equal(
        formats.parse("t.csv", b"1,2,3\n4,5,6\n")["t.csv"], [[1, 2, 3], [4, 5, 6]]
    )
    labels = formats.parse("x/train_lables.json", json.dumps([3, 1, 2]).encode())
    np.testing.assert_array_equal(labels["x/train_lables.json"], [3, 1, 2])


@pytest.mark.parametrize("pack", [tar, lambda files: tar(files, "w")])
def test_archives_give_what_is_inside_and_pass_over_the_rest(pack):
    files = {
        "package/data/train-images-idx3-ubyte.gz": gzip.compress(idx(IMAGES)),
        "package/readme.md": b"hello",
        "doc/README.md.gz": gzip.compress(b"hello"),
        "package/index.js": b"alert(1)",
    }
    found = formats.parse("archive", pack(files))
    assert list(found) == ["package/data/train-images-idx3-ubyte"]
    np.testing.assert_array_equal(found["package/data/train-images-idx3-ubyte"], IMAGES)


def test_folder_is_all_its_files(tmp_path):
    (tmp_path / "a-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "b.npz").write_bytes(npz(z=IMAGES))
    assert sorted(formats.read(tmp_path)) == ["a-ubyte", "z"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a-ubyte", idx(IMAGES)[:-1], "must hold 3x4x5 values, got 59"),
        ("a-ubyte.gz", gzip.compress(idx(IMAGES))[:-9], "cannot be read"),
        ("a.npz", npz(x=IMAGES)[:-30], "cannot be read"),
        ("a.tgz", tar({"a-ubyte": idx(IMAGES)})[:60], "cannot be read|damaged"),
        ("a.txt", b"hello", "must be idx, npz, mat, png, csv"),
        ("a-ubyte", bytes([0, 0, 7, 1, 0, 0, 0, 1, 9]), "unknown idx type 0x7"),
    ],
    # (Not made of the content: gzip writes the time into it, and workers must agree on names.)
    ids=["cut idx", "cut gzip", "cut npz", "cut tar", "no format", "unknown type"],
)
def test_damaged_files_are_named(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        formats.read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="nothing.npz does not exist"):
        formats.read(tmp_path / "nothing.npz")


class Trap:
    """Unpickling this would leave a mark."""

    def __reduce__(self):
        return (Trap.spring, ())

    @staticmethod
    def spring():
        raise AssertionError("a pickle was run")


def test_pickles_are_never_run(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([Trap()], dtype=object))
    with pytest.raises(ValueError, match="cannot be read.*got Python objects"):
        formats.read(tmp_path / "a.npz")
