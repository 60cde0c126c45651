"""Reconstructions and samples as one picture."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from dbsurf.experiments.vae.evaluation import SAMPLE_SEED, seeded
from dbsurf.experiments.vae.model import BinaryVAE
from dbsurf.runs.folder import write_atomically

COLUMNS, SCALE, GAP = 12, 3, 2


@torch.no_grad()
def save_pictures(model: BinaryVAE, images: Tensor, path: Path) -> None:
    """Three bands: binary images with their reconstructions below them, then samples.

    A reconstruction is the decoder's mean image at bits drawn from q; a sample the same at bits
    drawn from the prior.

    Args:
        model: the model.
        images: zeros and ones ``(N, pixels)``; the first 24, if there are so many, are shown.
        path: the PNG file.
    """
    generator = seeded(SAMPLE_SEED, images.device)
    shown = images[: 2 * COLUMNS]
    bits, _ = model.chains(shown, 1, generator)
    again = torch.sigmoid(model.decoders[0](bits[0][0]))
    invented = model.generate(4 * COLUMNS, generator)
    line = np.full((3 * GAP, grid(invented).shape[1]), 0.5, dtype=np.float32)
    bands = [
        part
        for pair in zip(shown.split(COLUMNS), again.split(COLUMNS), strict=True)
        for part in (*map(grid, pair), line)
    ]
    page = np.concatenate([*bands, line, grid(invented)])
    page = page.repeat(SCALE, 0).repeat(SCALE, 1)

    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, page, cmap="gray", vmin=0, vmax=1, format="png")
    write_atomically(path, buffer.getvalue())


def grid(images: Tensor) -> npt.NDArray[np.float32]:
    """Square images in rows of `COLUMNS`, a gap around each; black where a row is not full."""
    side = round(images.shape[-1] ** 0.5)
    images = functional.pad(images, (0, 0, 0, -len(images) % COLUMNS))
    tiles = images.float().cpu().numpy().reshape(-1, COLUMNS, side, side)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (GAP, GAP), (GAP, GAP)), constant_values=0.5)
    height, width = tiles.shape[0] * tiles.shape[2], COLUMNS * tiles.shape[3]
    page: npt.NDArray[np.float32] = tiles.transpose(0, 2, 1, 3).reshape(height, width)
    return page
