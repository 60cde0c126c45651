"""A data folder with damaged and hostile files: one line that names the file, and no more."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from blobs import blobs
from dbsurf_paper.commands.main import main
from dbsurf_paper.data import formats, load, nasbench, store
from dbsurf_paper.data.unpickling import FREE, RATIO

IMAGES = np.zeros((30, 28, 28), np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with one good set of one's own, called tiny."""
    return blobs(tmp_path)


DAMAGE = {
    "empty": b"",
    "short": b"PK\x03\x04" + bytes(20),
    "random": bytes(range(256)),
}


@pytest.mark.parametrize("kind", [*DAMAGE, "truncated"])
def test_a_damaged_file_of_the_folder_is_the_trouble_of_one_set(folder, capsys, kind):
    whole = (folder / "tiny.npz").read_bytes()
    (folder / "bad.npz").write_bytes(DAMAGE.get(kind, whole[: len(whole) // 2]))
    where = ["--data-dir", str(folder)]
    assert main(["data", "list", *where]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "damaged" in lines["bad"]
    assert "here" in lines["tiny"]
    assert main(["data", "check", *where]) == 2
    told = capsys.readouterr()
    assert "tiny: good" in told.out
    assert f"{folder / 'bad.npz'} cannot be read" in told.err
    assert told.err.count("\n") == 1
    assert main(["vae", "--dataset", "unknown", *where]) == 2
    assert "omniglot-iwae, bad, tiny, got 'unknown'" in capsys.readouterr().err


def test_a_set_without_its_hashes_is_refused_where_it_is_used(folder, capsys):
    np.savez(folder / "bare.npz", x_train=IMAGES, x_test=IMAGES)
    for line in (["data", "check", "bare"], ["vae", "--dataset", "bare"]):
        assert main([*line, "--data-dir", str(folder)]) == 2
        assert "bare.npz has no recorded hash of x_test, x_train" in capsys.readouterr().err


def test_a_set_of_other_shapes_is_refused(folder):
    store.save("flat", {"x_train": IMAGES.reshape(30, -1), "x_test": IMAGES}, folder)
    with pytest.raises(ValueError, match=r"x_train of .*flat.npz must be square images"):
        load("flat", folder)
    np.savez(folder / "odd.npz", sha256=np.array(["a b c"]), x_train=IMAGES, x_test=IMAGES)
    with pytest.raises(ValueError, match=r"odd.npz is corrupt: its list of hashes"):
        load("odd", folder)


@pytest.mark.parametrize("name", ["../../esc", "/tmp/esc", "a/b", ".hidden", "", "a\nb"])
def test_a_name_does_not_lead_out_of_the_folder(folder, tmp_path, capsys, name):
    np.savez(tmp_path / "own.npz", x_train=IMAGES, x_test=IMAGES)
    where = ["--data-dir", str(folder / "data")]
    assert main(["data", "import", str(tmp_path / "own.npz"), "--name", name, *where]) == 2
    assert "the name of a data set must be letters" in capsys.readouterr().err
    assert main(["vae", "--dataset", name, *where]) == 2
    assert "the name of a data set must be letters" in capsys.readouterr().err


def test_a_table_is_no_set_of_images(folder, capsys):
    for name in ("nasbench201", "nats-bench"):
        assert main(["vae", "--dataset", name, "--data-dir", str(folder)]) == 2
        error = capsys.readouterr().err
        assert "dataset must be one of digits, mnist" in error
        assert f"got '{name}'" in error


def _npz(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, x=array)
    return file.getvalue()


def _tar(data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a-idx3-ubyte")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


BOMB = FREE + RATIO * 2**20  # far more than a file of a few hundred kilobytes may become


@pytest.mark.parametrize(
    "make",
    [
        lambda: gzip.compress(bytes(BOMB), 1),
        lambda: gzip.compress(_tar(bytes(BOMB)), 1),
        lambda: gzip.compress(gzip.compress(bytes(BOMB), 1)),
        lambda: _npz(np.zeros(BOMB, np.uint8)),
        lambda: gzip.compress(_npz(np.zeros(BOMB, np.uint8))),
    ],
    ids=["gz", "tar.gz", "gz.gz", "npz", "npz.gz"],
)
def test_a_small_archive_does_not_fill_the_memory(tmp_path, make):
    file = tmp_path / "bomb"
    file.write_bytes(make())
    with pytest.raises(ValueError, match=r"bomb cannot be read: it unpacks to more than"):
        formats.read(file)


def test_a_packed_record_does_not_fill_the_memory(tmp_path):
    file = tmp_path / "000000.pickle.pbz2"
    file.write_bytes(bz2.compress(bytes(FREE + 2**20)))
    with pytest.raises(ValueError, match="unpacks to more than"):
        nasbench.read_pickle(file)


@pytest.mark.parametrize("shape", [(2**45,), (2**31, 2**31, 2**31), (7,)])
def test_a_header_is_not_believed(tmp_path, shape):
    """32 TB in a file of a few hundred bytes."""
    header = io.BytesIO()
    claim = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, claim)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"12345")
    with pytest.raises(ValueError, match=r"a.npz cannot be read: x.npy must hold .*got 5 bytes"):
        formats.read(tmp_path / "a.npz")


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back_as_numpy_reads_them(tmp_path, order):
    arrays = {
        "bytes": np.arange(24, dtype=np.uint8).reshape(2, 3, 4, order=order),
        "text": np.array([["a", "bc"]]),
        "scalar": np.array(3.5),
        "none": np.empty((0, 4), np.int64),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    }
    np.savez(tmp_path / "a.npz", **arrays)
    found = formats.read(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as wanted:
        for name in arrays:
            assert found[name].dtype == wanted[name].dtype
            np.testing.assert_array_equal(found[name], wanted[name])
            assert found[name].flags.writeable


def test_no_flipped_bit_of_a_set_goes_unnoticed(folder):
    path = folder / "tiny.npz"
    whole, wanted = path.read_bytes(), load("tiny", folder)
    draw = np.random.default_rng(0)
    for _ in range(100):
        data = bytearray(whole)
        data[draw.integers(len(data))] ^= 1 << int(draw.integers(8))
        path.write_bytes(data)
        try:
            found = load("tiny", folder)
        except ValueError as error:
            if str(path) not in str(error):
                raise
        else:
            np.testing.assert_array_equal(found.train, wanted.train)
            np.testing.assert_array_equal(found.test, wanted.test)


@pytest.mark.parametrize("count", [1, 5, 12, 13])
def test_a_set_of_few_test_images_trains_to_the_end_and_draws_its_picture(folder, count):
    from matplotlib.image import imread

    rows = np.random.default_rng(0).integers(0, 256, (50, 28, 28)).astype(np.uint8)
    store.save("few", {"x_train": rows, "x_test": rows[:count]}, folder)
    line = ["vae", "--dataset", "few", "--data-dir", str(folder), "--out", str(folder / "run")]
    line += ["--steps", "3", "--batch", "10", "--latents", "4", "--hidden", "4", "--no-tensorboard"]
    line += ["--bound-samples", "2", "--variance-draws", "0", "--evaluation-samples", "1"]
    assert main([*line, "--threads", "1"]) == 0
    picture = imread(folder / "run" / "pictures.png")
    assert picture.shape[1] == 1_280
