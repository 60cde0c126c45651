"""Reconstructions and samples as one picture."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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
        images: zeros and ones, at least 24 of ``(N, pixels)``.
        path: the PNG file.
    """
    generator = seeded(SAMPLE_SEED, images.device)
    shown = images[: 2 * COLUMNS]
    bits, _ = model.chains(shown, 1, generator)
    again = torch.sigmoid(model.decoders[0](bits[0][0]))
    invented = model.generate(4 * COLUMNS, generator)
    rows = [shown[:COLUMNS], again[:COLUMNS], shown[COLUMNS:], again[COLUMNS:]]
    bands = [grid(rows[0]), grid(rows[1]), grid(rows[2]), grid(rows[3]), grid(invented)]
    width = bands[0].shape[1]
    line = np.full((3 * GAP, width), 0.5, dtype=np.float32)
    page = np.concatenate([*bands[:2], line, *bands[2:4], line, line, bands[4]])
    page = page.repeat(SCALE, 0).repeat(SCALE, 1)

    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, page, cmap="gray", vmin=0, vmax=1, format="png")
    write_atomically(path, buffer.getvalue())


def grid(images: Tensor) -> npt.NDArray[np.float32]:
    """Square images in rows of `COLUMNS`, a gap around each."""
    side = round(images.shape[-1] ** 0.5)
    tiles = images.float().cpu().numpy().reshape(-1, COLUMNS, side, side)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (GAP, GAP), (GAP, GAP)), constant_values=0.5)
    height, width = tiles.shape[0] * tiles.shape[2], COLUMNS * tiles.shape[3]
    page: npt.NDArray[np.float32] = tiles.transpose(0, 2, 1, 3).reshape(height, width)
    return page
