"""Windows.Foundation: operations."""

from __future__ import annotations

from enum import IntEnum

from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import MemoryBufferReference as IMemoryBufferReference
from ....core.base.winrt_object import Closeable
from ....enums import AsyncStatus

__all__ = [
    "AsyncStatus",
    "IAsyncAction",
    "IAsyncOperation",
    "IAsyncOperationWithProgress",
    "IClosable",
    "IMemoryBufferReference",
    "PropertyType",
]

IAsyncOperation = IAsyncOperationWithProgress = AsyncOperation
IAsyncAction = AsyncOperation
IClosable = Closeable


class PropertyType(IntEnum):
    """The type of an encoding option's value: that of `ImageQuality`."""

    SINGLE = 8
