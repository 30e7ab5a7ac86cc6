"""Windows.Foundation: operations, and boxed values. Python needs no boxes, so a boxed value is the value itself."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np

from ....core.base.arguments import whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import MemoryBufferReference as IMemoryBufferReference
from ....enums import AsyncStatus
from ...system import Array

__all__ = ["AsyncStatus", "IAsyncAction", "IAsyncOperation", "IMemoryBufferReference", "PropertyType", "PropertyValue"]

IAsyncOperation = AsyncOperation
IAsyncAction = AsyncOperation


class PropertyType(IntEnum):
    """The type of a boxed value."""

    EMPTY = 0
    UINT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    UINT64 = 7
    SINGLE = 8
    DOUBLE = 9
    CHAR16 = 10
    BOOLEAN = 11
    STRING = 12


def _whole(dtype: type[np.integer[Any]]) -> Callable[[int], int]:
    bounds = np.iinfo(dtype)
    return partial(whole_number, what=f"The {bounds.dtype.name}", least=int(bounds.min), most=int(bounds.max))


class PropertyValue:
    """Makes the values of a `PropertySet`: Python values, checked, and `Array`s."""

    create_empty = staticmethod(lambda: None)
    create_boolean = staticmethod(bool)
    create_string = staticmethod(str)
    create_single = create_double = staticmethod(float)
    create_uint8 = staticmethod(_whole(np.uint8))
    create_int16 = staticmethod(_whole(np.int16))
    create_uint16 = staticmethod(_whole(np.uint16))
    create_int32 = staticmethod(_whole(np.int32))
    create_uint32 = staticmethod(_whole(np.uint32))
    create_int64 = staticmethod(_whole(np.int64))
    create_uint64 = staticmethod(_whole(np.uint64))
    create_boolean_array = staticmethod(partial(Array, np.bool_))
    create_string_array = staticmethod(partial(Array, str))
    create_single_array = staticmethod(partial(Array, np.float32))
    create_double_array = staticmethod(partial(Array, np.float64))
    create_uint8_array = staticmethod(partial(Array, np.uint8))
    create_int16_array = staticmethod(partial(Array, np.int16))
    create_uint16_array = staticmethod(partial(Array, np.uint16))
    create_int32_array = staticmethod(partial(Array, np.int32))
    create_uint32_array = staticmethod(partial(Array, np.uint32))
    create_int64_array = staticmethod(partial(Array, np.int64))
    create_uint64_array = staticmethod(partial(Array, np.uint64))
