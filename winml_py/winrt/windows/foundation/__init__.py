"""Windows.Foundation: operations, and boxed values. Python needs no boxes, so a boxed value is the value itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urljoin, urlsplit
from uuid import UUID

import numpy as np

from ....core.base.arguments import require_type, whole_number
from ....core.base.async_operation import AsyncOperation
from ....core.base.buffers import MemoryBufferReference as IMemoryBufferReference
from ....core.base.winrt_object import Closeable
from ....enums import AsyncStatus
from ....errors import InvalidArgumentError
from ...system import Array

T = TypeVar("T")

__all__ = [
    "AsyncStatus",
    "IAsyncAction",
    "IAsyncActionWithProgress",
    "IAsyncInfo",
    "IAsyncOperation",
    "IAsyncOperationWithProgress",
    "IClosable",
    "IMemoryBuffer",
    "IMemoryBufferReference",
    "MemoryBuffer",
    "Point",
    "PropertyType",
    "PropertyValue",
    "Rect",
    "Size",
    "Uri",
]

IAsyncInfo = AsyncOperation
IAsyncOperation = IAsyncOperationWithProgress = AsyncOperation
IAsyncAction = IAsyncActionWithProgress = AsyncOperation
IClosable = Closeable


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
    INSPECTABLE = 13
    DATE_TIME = 14
    TIME_SPAN = 15
    GUID = 16
    POINT = 17
    SIZE = 18
    RECT = 19
    OTHER_TYPE = 20
    UINT8_ARRAY = 1025
    INT16_ARRAY = 1026
    UINT16_ARRAY = 1027
    INT32_ARRAY = 1028
    UINT32_ARRAY = 1029
    INT64_ARRAY = 1030
    UINT64_ARRAY = 1031
    SINGLE_ARRAY = 1032
    DOUBLE_ARRAY = 1033
    CHAR16_ARRAY = 1034
    BOOLEAN_ARRAY = 1035
    STRING_ARRAY = 1036
    INSPECTABLE_ARRAY = 1037
    DATE_TIME_ARRAY = 1038
    TIME_SPAN_ARRAY = 1039
    GUID_ARRAY = 1040
    POINT_ARRAY = 1041
    SIZE_ARRAY = 1042
    RECT_ARRAY = 1043
    OTHER_TYPE_ARRAY = 1044


def _whole(dtype: type[np.integer[Any]]) -> Callable[[int], int]:
    bounds = np.iinfo(dtype)
    return partial(whole_number, what=f"The {bounds.dtype.name}", least=int(bounds.min), most=int(bounds.max))


def _one_of(kind: type[T]) -> Callable[[object], T]:
    def checked(value: object) -> T:
        require_type(value, kind, f"Pass a {kind.__name__}.")
        return value  # type: ignore[return-value]

    return checked


def _character(value: str) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise InvalidArgumentError(f"The character is {value!r}.", hint="It is a text of length 1.")
    return value


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


def _numbers_of(kind: Callable[..., T]) -> Callable[[Iterable[float]], T]:
    def made(value: Iterable[float]) -> T:
        try:
            return kind(*map(float, value))  # plain tuples do, as in pywinrt 3
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"The value is {value!r}.", hint="Pass its numbers.") from error

    return made


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
    create_char16 = staticmethod(_character)
    create_guid = staticmethod(_one_of(UUID))
    create_date_time = staticmethod(_one_of(datetime))
    create_time_span = staticmethod(_one_of(timedelta))
    create_inspectable = staticmethod(_one_of(object))
    create_point = staticmethod(_numbers_of(Point))
    create_size = staticmethod(_numbers_of(Size))
    create_rect = staticmethod(_numbers_of(Rect))
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


class MemoryBuffer(Closeable):
    """Memory of its own, zeros at first.

    Args:
        capacity: its bytes.

    Raises:
        InvalidArgumentError: the capacity is no whole number of at least 0.

    Example:
        >>> from winml_py.winrt.windows.foundation import MemoryBuffer
        >>> with MemoryBuffer(4) as buffer:
        ...     buffer.create_reference().capacity
        4
    """

    def __init__(self, capacity: int, /) -> None:
        self._memory: bytearray | None = bytearray(whole_number(capacity, "The capacity"))

    def create_reference(self) -> IMemoryBufferReference:
        """Access to the memory, which lives as long as the reference; once the buffer is closed, to none."""
        return IMemoryBufferReference(None if self._memory is None else memoryview(self._memory))

    def close(self) -> None:
        """Lets go of the memory."""
        self._memory = None


IMemoryBuffer = MemoryBuffer


class Uri:
    """An absolute URI, and its parts, by Python's own parser.

    Args:
        uri: the text; relative to another URI, where two come.

    Raises:
        InvalidArgumentError: it is not absolute, or cannot be read.

    Example:
        >>> from winml_py.winrt.windows.foundation import Uri
        >>> uri = Uri("ms-appx:///Assets/digits.onnx")
        >>> uri.scheme_name, uri.path, uri.extension
        ('ms-appx', '/Assets/digits.onnx', '.onnx')
    """

    def __init__(self, uri: str, relative: str = "", /) -> None:
        self.raw_uri = urljoin(uri, relative) if relative else uri
        try:
            self._parts = urlsplit(self.raw_uri)
            self.port = self._parts.port or {"http": 80, "https": 443, "ftp": 21}.get(self._parts.scheme, 0)
        except ValueError as error:
            raise InvalidArgumentError(f"{uri!r} is no URI: {error}.") from error
        if not self._parts.scheme:
            raise InvalidArgumentError(f"{uri!r} is no absolute URI.", hint="Write its scheme: ms-appx:///model.onnx.")

    @property
    def absolute_uri(self) -> str:
        """All of it, with what may not stand in a URI escaped."""
        return quote(self.raw_uri, safe="%/:?#[]@!$&'()*+,;=~")

    @property
    def display_uri(self) -> str:
        """All of it, as people read it."""
        return unquote(self.raw_uri)

    @property
    def scheme_name(self) -> str:
        """What stands before the colon, in lower case."""
        return self._parts.scheme

    @property
    def host(self) -> str:
        """The host's name, or ""."""
        return self._parts.hostname or ""

    @property
    def domain(self) -> str:
        """The last two parts of the host's name, or ""."""
        return ".".join(self.host.split(".")[-2:])

    @property
    def user_name(self) -> str:
        """The name before the host, or ""."""
        return self._parts.username or ""

    @property
    def password(self) -> str:
        """The password before the host, or ""."""
        return self._parts.password or ""

    @property
    def path(self) -> str:
        """The path, as it was written."""
        return self._parts.path

    @property
    def extension(self) -> str:
        """The ending of the path, with its dot, or ""."""
        name = self.path.rpartition("/")[2]
        return f".{name.rpartition('.')[2]}" if "." in name else ""

    @property
    def query(self) -> str:
        """The query with its question mark, or ""."""
        return f"?{self._parts.query}" if self._parts.query else ""

    @property
    def fragment(self) -> str:
        """The fragment with its sign, or ""."""
        return f"#{self._parts.fragment}" if self._parts.fragment else ""

    @property
    def suspicious(self) -> bool:
        """Whether a user's name or a password stands before the host."""
        return bool(self.user_name or self.password)

    def combine_uri(self, relative: str, /) -> Uri:
        """The URI that a relative one is from here."""
        return Uri(self.raw_uri, relative)

    def equals(self, other: Uri, /) -> bool:
        """Whether both are the same."""
        return self == other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uri) and other.absolute_uri == self.absolute_uri

    def __hash__(self) -> int:
        return hash(self.absolute_uri)

    def __str__(self) -> str:
        return self.absolute_uri

    def __repr__(self) -> str:
        return f"Uri({self.raw_uri!r})"

    escape_component = staticmethod(partial(quote, safe=""))
    unescape_component = staticmethod(unquote)
