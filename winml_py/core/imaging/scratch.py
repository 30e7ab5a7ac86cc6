"""Scratch: memory that is reused from call to call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Scratch:
    """Arrays by name, kept as long as their shape stays, and the last conversion. For one thread at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._planes: list[np.ndarray[Any, Any]] = []
        self._last: tuple[Any, Any] = (None, None)

    def recall(self, key: tuple[Any, ...], make: Callable[..., Any]) -> Any:
        """What `make(*key)` gave, where the last key was the same."""
        if self._last[0] != key:
            self._last = (key, make(*key))
        return self._last[1]

    def get(self, name: str, shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
        """An array that holds what was last written to it, or undefined numbers; a name has one dtype."""
        array = self._arrays.get(name)
        if array is None or array.shape != shape:
            array = self._arrays[name] = np.empty(shape, dtype)
        return array

    def planes(self, count: int, shape: tuple[int, int]) -> list[np.ndarray[Any, Any]]:
        """`count` arrays of uint8, each contiguous."""
        if len(self._planes) != count or self._planes[0].shape != shape:
            size = shape[0] * shape[1]
            # OpenCV's split writes planes that are aligned alike past the cache, and reading them would wait for memory
            step = -(-size // 64) * 64 + 16
            block = np.empty(count * step, np.uint8)
            self._planes = [block[index * step :][:size].reshape(shape) for index in range(count)]
        return self._planes
