"""How much a file may unpack to: a small archive must not fill the memory."""

from __future__ import annotations

from typing import Protocol

FREE, RATIO = 64 * 2**20, 100  # bytes, and how many times its own size a file may become


class Readable(Protocol):
    """An open file, packed or not."""

    def read(self, size: int, /) -> bytes: ...


class Room:
    """Bytes that may still be unpacked from one file, whatever archives are inside each other.

    Args:
        left: bytes.
    """

    def __init__(self, left: int) -> None:
        self.left = self._whole = left

    @classmethod
    def of(cls, size: int) -> Room:
        """Room for a file of ``size`` bytes: a hundred times that, and 64 MiB."""
        return cls(FREE + RATIO * size)

    def read(self, file: Readable) -> bytes:
        """All that is in ``file``.

        Raises:
            ValueError: once that is more than there is room for; not much more has been read then.
        """
        data = file.read(self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise ValueError(f"it unpacks to more than {self._whole:,} bytes")
        return data
