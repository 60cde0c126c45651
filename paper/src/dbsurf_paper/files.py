"""Atomic writing of files, and reading of JSON files that may be damaged.

Run folders and the data folder both use this module. It imports nothing else of dbsurf.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

LARGEST = 2**63  # bound on integers in JSON files: larger ones do not fit into an int64 array
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Every `OSError` inside names ``path``: those of libraries often name no file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace ``path`` by ``content`` in one step: a reader sees the old file or the new one.

    The content is written to disk under a temporary name, which then is renamed. A full disk or a
    killed process leaves the old file as it was; an `OSError` names ``path``.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    with naming(path):
        try:
            with temporary.open("xb") as file:  # with the permissions of any other new file
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            _remove(temporary)
            raise


def _remove(path: Path) -> None:
    """Remove a file if possible; errors are ignored, because the caller raises its own."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def remove_temporary(folder: Path, *, older_than: float = 0.0) -> None:
    """Remove temporary files that killed processes left in ``folder``.

    Args:
        folder: the folder; its subfolders are not searched.
        older_than: age in seconds; above 0 where another process may be writing there now.
    """
    latest = time.time() - older_than
    for path in folder.glob(".*"):
        if _TEMPORARY.fullmatch(path.name) and path.is_file() and path.stat().st_mtime <= latest:
            path.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write ``content`` as indented JSON, atomically."""
    write_atomically(path, json.dumps(content, indent=2, sort_keys=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ValueError: naming the file, if `parse_json` refuses its content or it is not an object.
    """
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it must hold a JSON object")
    return content


def parse_json(text: bytes) -> Any:
    """What a JSON text holds.

    Raises:
        ValueError: if it is not JSON, or holds an integer that does not fit into 64 bits.
    """
    try:
        return json.loads(text.decode(), parse_int=_integer)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    except ValueError as error:  # of the decoder, of UTF-8, or of a number
        raise ValueError(str(error).splitlines()[0]) from None


def _integer(text: str) -> int:
    if len(text) > 20 or abs(value := int(text)) >= LARGEST:
        raise ValueError(f"an integer must be below 2**63, got one of {len(text)} digits")
    return value
