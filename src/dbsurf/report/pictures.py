"""PNG files that runs wrote, looked at before they go into a page."""

from __future__ import annotations

from pathlib import Path

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def is_png(path: Path) -> bool:
    """Whether there is a PNG file, whole as far as its first and last bytes tell."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    return content.startswith(SIGNATURE) and b"IEND" in content[-12:]
