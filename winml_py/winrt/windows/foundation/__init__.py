"""Windows.Foundation: operations, and points, sizes and rectangles."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import MemoryBufferReference as IMemoryBufferReference
from ....core.base.winrt_object import Closeable
from ....enums import AsyncStatus

__all__ = [
    "AsyncStatus",
    "IAsyncAction",
    "IAsyncActionWithProgress",
    "IAsyncInfo",
    "IAsyncOperation",
    "IAsyncOperationWithProgress",
    "IClosable",
    "IMemoryBufferReference",
    "Point",
    "PropertyType",
    "Rect",
    "Size",
]

IAsyncInfo = AsyncOperation
IAsyncOperation = IAsyncOperationWithProgress = AsyncOperation
IAsyncAction = IAsyncActionWithProgress = AsyncOperation
IClosable = Closeable


class PropertyType(IntEnum):
    """The type of an encoding option's value: that of `ImageQuality`."""

    SINGLE = 8


class Point(NamedTuple):
    """A place."""

    x: float = 0
    y: float = 0


class Size(NamedTuple):
    """A width and a height."""

    width: float = 0
    height: float = 0


class Rect(NamedTuple):
    """A rectangle, by its upper left corner and its size."""

    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0
