"""`Array` and the names of WinRT's fundamental types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..core.base.winrt_object import Object as Object
from ..errors import InvalidArgumentError

Boolean = np.bool_
UInt8, UInt16, UInt32, UInt64 = np.uint8, np.uint16, np.uint32, np.uint64
Int8, Int16, Int32, Int64 = np.int8, np.int16, np.int32, np.int64
Single, Double = np.float32, np.float64
String = Char16 = str


class Array(np.ndarray[Any, Any]):
    """A flat array of one WinRT type: a numpy array, so it is a buffer and binds without a copy.

    Args:
        type: one of this module's names, `bool`, `str`, or a buffer format such as "f".
        initializer: how many elements, all zero; or the elements.

    Example:
        >>> from winml_py.winrt.system import Array, Single
        >>> list(Array(Single, [1, 2.5])) == [1.0, 2.5]
        True
        >>> len(Array("I", 4))
        4
    """

    def __new__(cls, type: Any, initializer: int | Iterable[Any] = 0, /) -> Self:  # noqa: A002, D102
        dtype = np.dtype(object if type in (str, object) else type)
        if isinstance(initializer, (int, np.integer)):
            return np.full(int(initializer), "" if type is str else 0, dtype).view(cls)
        if isinstance(initializer, (bytes, bytearray, memoryview)):
            return np.frombuffer(initializer, dtype).copy().view(cls)
        elements = initializer if isinstance(initializer, np.ndarray) else list(initializer)
        try:
            given = np.asarray(elements)  # numpy wraps its own integers, and reads text as numbers
            if given.size and dtype.kind in "iu" and (given.dtype.kind in "fU" or (given.astype(dtype) != given).any()):
                raise TypeError("some are not whole numbers in its range")
            return np.array(elements, dtype).reshape(-1).view(cls)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"An Array of {dtype.name} cannot be made from these elements: {error}.",
                hint="Choose a type that holds all of them, such as Int64, Double or String.",
            ) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and self.tolist() == list(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def _as_it_is(value: object, /) -> Any:
    """The value itself: Python needs no boxing."""
    return value


box_boolean = box_int32 = box_single = box_string = _as_it_is
unbox_boolean = unbox_int32 = unbox_single = unbox_string = _as_it_is
