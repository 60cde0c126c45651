"""Folders of pictures as a data set: grey squares of one size, split into training and test."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dbsurf_paper.data.catalog import Arrays

KINDS = (".png", ".jpg", ".jpeg")
SIZE = 28  # pixels of a side, as in MNIST


def all_pictures(files: Sequence[Path]) -> list[Path]:
    """The pictures in files and folders, at any depth, sorted by path; [] if others are given."""
    found: list[Path] = []
    for file in files:
        inside = (
            sorted(one for one in file.rglob("*") if one.is_file()) if file.is_dir() else [file]
        )
        pictures = [one for one in inside if one.suffix.lower() in KINDS]
        if not pictures:
            return []
        found += pictures
    return found


def read_pictures(
    files: Sequence[Path], size: int | None = None, test: float | None = None
) -> Arrays:
    """Arrays ``x_train`` and ``x_test`` from folders of pictures.

    Args:
        files: pictures, or folders of them, at any depth.
        size: pixels of a side; None for 28. A picture becomes grey, is cut to a square around its
            centre and scaled to this size. Transparent pixels are black.
        test: share of the pictures that are test images, drawn at random with a fixed seed. None:
            those below a folder named ``test``; the rest, or those below ``train``, are training
            images.
    """
    size = SIZE if size is None else size
    if not 1 <= size <= 512:
        raise ValueError(f"--size must be 1 to 512 pixels, got {size}")
    pictures = all_pictures(files)
    train, held_out = _by_folder(pictures) if test is None else _at_random(pictures, test)
    return {"x_train": _stacked(train, size), "x_test": _stacked(held_out, size)}


def _by_folder(pictures: list[Path]) -> tuple[list[Path], list[Path]]:
    named = [{part.lower() for part in one.parent.parts} for one in pictures]
    held_out = [one for one, parts in zip(pictures, named, strict=True) if "test" in parts]
    train = [one for one, parts in zip(pictures, named, strict=True) if "test" not in parts]
    if not held_out or not train:
        raise ValueError(
            f"{len(pictures):,} pictures must be split into training and test images: put them "
            "into folders train and test, or give --test a share such as .1"
        )
    return train, held_out


def _at_random(pictures: list[Path], share: float) -> tuple[list[Path], list[Path]]:
    count = round(share * len(pictures))
    if not 0 < share < 1 or not 0 < count < len(pictures):
        raise ValueError(
            "--test must be a share between 0 and 1 that leaves pictures on both sides, "
            f"got {share:g} of {len(pictures):,}"
        )
    order = np.random.default_rng(0).permutation(len(pictures))
    # (sorted again, so that the arrays are in the order of the files)
    held_out, train = sorted(order[:count]), sorted(order[count:])
    return [pictures[i] for i in train], [pictures[i] for i in held_out]


def _stacked(pictures: list[Path], size: int) -> npt.NDArray[np.uint8]:
    return np.stack([grey_square(one, size) for one in pictures])


def grey_square(file: Path, size: int) -> npt.NDArray[np.uint8]:
    """One picture as ``(size, size)`` bytes, 0 for black."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(file.read_bytes())) as picture:
            if picture.mode.startswith("I"):  # 16 bits a pixel, which PIL would clip at 255
                wide = np.asarray(picture, np.float64) / 257
                grey = Image.fromarray(np.rint(wide).clip(0, 255).astype(np.uint8))
            elif "A" in picture.getbands() or "transparency" in picture.info:
                clear = picture.convert("RGBA")
                black = Image.new("RGBA", clear.size, (0, 0, 0, 255))
                grey = Image.alpha_composite(black, clear).convert("L")
            else:
                grey = picture.convert("L")
            square = ImageOps.fit(grey, (size, size), Image.Resampling.LANCZOS)
            return np.array(square, np.uint8)
    except Exception as error:  # a damaged file can make PIL raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{file} cannot be read as a picture: {reason}") from error
