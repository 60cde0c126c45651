"""A folder of pictures becomes a data set, whatever the pictures look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dbsurf_paper.commands.main import main
from dbsurf_paper.data import load
from dbsurf_paper.data.importing import import_files
from dbsurf_paper.data.pictures import grey_square


def draw(file: Path, shape: tuple[int, ...] = (40, 50), value: int = 200) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(shape, value, np.uint8)).save(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty pictures in folders of classes, with names that repeat."""
    for kind in ("cats", "dogs"):
        for number in range(10):
            draw(tmp_path / "own" / kind / f"{number}.png", value=10 * number)
    return tmp_path / "own"


def test_the_command_of_the_page(folder, tmp_path, capsys):
    words = ["--name", "pets", "--size", "28", "--test", ".1", "--data-dir", str(tmp_path / "d")]
    assert main(["data", "import", str(folder), *words]) == 0
    assert "pets: " in capsys.readouterr().out
    images = load("pets", tmp_path / "d")
    assert images.train.shape == (18, 28, 28)
    assert images.test.shape == (2, 28, 28)
    # all twenty, each once
    values = np.concatenate([images.train, images.test])[:, 0, 0]
    assert sorted(values) == sorted(2 * list(range(0, 100, 10)))
    import_files([folder], tmp_path / "again", "pets", size=28, test=0.1)
    assert np.array_equal(load("pets", tmp_path / "again").test, images.test)


def test_other_sizes_and_folders_train_and_test(tmp_path):
    draw(tmp_path / "p" / "train" / "a.png")
    draw(tmp_path / "p" / "train" / "b.jpg")
    draw(tmp_path / "p" / "test" / "a.png")
    (tmp_path / "p" / "readme.txt").write_text("not a picture")
    import_files([tmp_path / "p"], tmp_path / "d", "mine", size=16)
    images = load("mine", tmp_path / "d")
    assert images.train.shape == (2, 16, 16)
    assert images.test.shape == (1, 16, 16)


def test_a_vae_trains_on_pictures_of_another_size(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    import_files([folder], tmp_path / "d", "pets", size=8, test=0.5)
    small = "--steps 2 --batch 5 --latents 3 --hidden 4 --evaluation-samples 2 --bound-samples 2"
    words = ["vae", "--dataset", "pets", "--data-dir", str(tmp_path / "d"), *small.split()]
    assert main([*words, "--variance-draws", "0", "--no-tensorboard", "--device", "cpu"]) == 0


def test_pictures_of_every_kind_become_grey_squares(tmp_path):
    file = tmp_path / "a.png"
    draw(file, (30, 60, 3), 100)
    assert (grey_square(file, 8) == 100).all()
    Image.fromarray(np.full((9, 9), 25_700, np.uint16)).save(file)  # 16 bits: 100 of 255
    assert (grey_square(file, 4) == 100).all()
    clear = np.zeros((6, 6, 4), np.uint8)
    clear[..., :3] = 255  # white, but nothing of it is seen
    Image.fromarray(clear).save(file)
    assert (grey_square(file, 6) == 0).all()
    wide = np.zeros((4, 8), np.uint8)
    wide[:, 2:6] = 255
    Image.fromarray(wide).save(file)
    assert (grey_square(file, 4) == 255).all()  # the square around the centre


def test_what_cannot_be_imported_says_so_in_a_line(folder, tmp_path, capsys):
    where = ["--data-dir", str(tmp_path / "d")]
    own = ["data", "import", str(folder), *where]
    cases = {
        "20 pictures must be split into training and test images": ["--name", "pets"],
        "--test must be a share between 0 and 1 that leaves": ["--name", "pets", "--test", "1"],
        "--size must be 1 to 512 pixels, got 0": ["--name", "pets", "--test", ".5", "--size", "0"],
        "--size and --test must go with --name": ["--test", ".1"],
        "no known data set was recognised in": [],
    }
    for message, words in cases.items():
        assert main([*own, *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
    (folder / "cats" / "0.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing else")
    assert main([*own, "--name", "pets", "--test", ".5"]) == 2
    assert "0.png cannot be read as a picture" in capsys.readouterr().err


def test_an_error_does_not_list_every_file(tmp_path, capsys):
    arrays = {f"array{i}": np.zeros(3) for i in range(1_200)}
    np.savez(tmp_path / "many.npz", **arrays)
    words = ["data", "import", str(tmp_path / "many.npz"), "--data-dir", str(tmp_path / "d")]
    for name in ("mine", "mnist"):
        assert main([*words, "--name", name]) == 2
        error = capsys.readouterr().err
        assert "array4 and 1,195 others" in error
        assert len(error) < 400
