"""Scratch: memory that is reused from call to call."""

from __future__ import annotations

from typing import Any

import numpy as np


class Scratch:
    """Arrays by name, kept as long as their shape stays. For one thread at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._planes: list[np.ndarray[Any, Any]] = []

    def get(self, name: str, shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """An array with what was last written to it, or anything at all; a name is always of one dtype."""
        array = self._arrays.get(name)
        if array is None or array.shape != shape:
            array = self._arrays[name] = np.empty(shape, dtype)
        return array

    def planes(self, count: int, shape: tuple[int, int]) -> list[np.ndarray[Any, Any]]:
        """`count` arrays of uint8, each contiguous."""
        if len(self._planes) != count or self._planes[0].shape != shape:
            self._planes = list(np.empty((count, *shape), np.uint8))
        return self._planes
