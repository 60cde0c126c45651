"""Data sets: downloaded, imported, and checked by a hash of their content."""

from dbsurf_paper.data.catalog import CATALOG
from dbsurf_paper.data.store import (
    Images,
    LabelledImages,
    data_folder,
    load,
    load_arrays,
    load_labelled,
)

__all__ = [
    "CATALOG",
    "Images",
    "LabelledImages",
    "data_folder",
    "load",
    "load_arrays",
    "load_labelled",
]
