"""Where data sets come from, checked by content hash."""

from dbsurf.data.catalog import CATALOG
from dbsurf.data.store import Images, data_folder, load, load_arrays

__all__ = ["CATALOG", "Images", "data_folder", "load", "load_arrays"]
