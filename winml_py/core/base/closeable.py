"""Closeable: objects that `with` closes."""

from __future__ import annotations

from typing import Self


class Closeable:
    """The base of classes whose `close` a `with` statement calls."""

    __slots__ = ()

    def close(self) -> None:
        """Lets go of what the object holds. Twice is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
