"""The maps and vectors of the API: plain Python protocols with WinRT's extra names."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np

from ...errors import E_BOUNDS, InvalidArgumentError, NotBoundError
from .arrays import Array

V = TypeVar("V")


class VectorIterator(Iterator[V], Generic[V]):
    """Python's iterator with WinRT's names: its position is at an element, or past the last."""

    __slots__ = ("_elements", "_position")

    def __init__(self, elements: Iterable[V]) -> None:
        self._elements = tuple(elements)
        self._position = 0

    @property
    def has_current(self) -> bool:
        """Whether its position is at an element."""
        return self._position < len(self._elements)

    @property
    def current(self) -> V:
        """The current element; past the last, raises InvalidArgumentError (E_BOUNDS)."""
        if not self.has_current:
            raise InvalidArgumentError("The iterator is past the last element.", hresult=E_BOUNDS)
        return self._elements[self._position]

    def move_next(self) -> bool:
        """Moves to the next element; returns whether there is one."""
        self._position += self.has_current
        return self.has_current

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> V:
        if not self.has_current:
            raise StopIteration
        element = self._elements[self._position]
        self._position += 1
        return element


class KeyValuePair(NamedTuple):
    """A pair from the iteration over a WinRT map."""

    key: str
    value: Any


class MapView(Mapping[str, V], Generic[V]):
    """A Python mapping with WinRT's names."""

    __slots__ = ()

    def has_key(self, key: str, /) -> bool:
        """WinRT's name for `key in map`."""
        return key in self

    def lookup(self, key: str, /) -> V:
        """WinRT's name for `map[key]`."""
        return self[key]

    @property
    def size(self) -> int:
        """WinRT's name for `len(map)`."""
        return len(self)

    def first(self) -> VectorIterator[KeyValuePair]:
        """WinRT's name for `iter(map.items())`: pairs that also have a `key` and a `value`."""
        return VectorIterator(KeyValuePair(*item) for item in self.items())


class NameMap(MapView[V], Generic[V]):
    """A map whose names match in any case, exact matches first; iteration yields the original spelling."""

    __slots__ = ("_folded", "_items")

    def __init__(self, items: Mapping[str, V]) -> None:
        self._items = items
        self._folded: dict[str, str] | None = None

    def _spelling(self, name: object) -> str | None:
        if not isinstance(name, str) or name in self._items:
            return name if isinstance(name, str) else None
        if self._folded is None:  # of equal names, the first must win: the dict keeps the last
            self._folded = {key.casefold(): key for key in reversed([*self._items])}
        return self._folded.get(name.casefold())

    def __getitem__(self, name: str) -> V:
        spelling = self._spelling(name)
        if spelling is None:
            names = ", ".join(map(repr, self._items)) or "nothing"
            what = "The map contains" if isinstance(name, str) else "Pass a name:"
            raise NotBoundError(f"The map has no key {name!r}.", hint=f"{what} {names}.")
        return self._items[spelling]

    def __contains__(self, name: object) -> bool:
        return self._spelling(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._items)!r})"


class PropertySet(MapView[Any], UserDict[str, Any]):
    """A dict with WinRT's names."""

    def insert(self, key: str, value: object, /) -> bool:
        """Sets a value; returns whether it replaced another."""
        replaced = key in self
        self[key] = value
        return replaced

    def remove(self, key: str, /) -> None:
        """WinRT's name for `del map[key]`."""
        self.pop(key)

    def get_view(self) -> Mapping[str, Any]:
        """A copy, for reading."""
        return dict(self.data)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.data))  # other threads may add keys meanwhile

    def __repr__(self) -> str:
        return f"PropertySet({self.get_view()!r})"

    def __missing__(self, key: str) -> Any:
        raise NotBoundError(f"The map has no key {key!r}.", hint=f"The map contains {', '.join(self) or 'nothing'}.")


class VectorNames(Sequence[V], Generic[V]):
    """A Python sequence with WinRT's names."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """WinRT's name for `len(vector)`."""
        return len(self)

    def get_at(self, index: int, /) -> V:
        """WinRT's name for `vector[index]`, without negative indices."""
        if not 0 <= index < len(self):
            raise InvalidArgumentError(
                f"Index {index} is out of range: the collection has {len(self)} elements.", hresult=E_BOUNDS
            )
        return self[index]

    def index_of(self, value: object, /) -> tuple[bool, int]:
        """Whether the value is in the sequence, and its index (0 if it is not)."""
        return (True, self.index(value)) if value in self else (False, 0)

    def first(self) -> VectorIterator[V]:
        """WinRT's name for `iter(vector)`."""
        return VectorIterator(self)


class Vector(tuple[V, ...], VectorNames[V]):
    """A tuple with WinRT's names."""

    __slots__ = ()


class ListOutput(list[V], VectorNames[V]):
    """A sequence from a model: a list with WinRT's names."""

    __slots__ = ()


class MapOutput(dict[Any, V], MapView[V]):
    """A map from a model: a dict with WinRT's names."""

    __slots__ = ()

    def __missing__(self, key: object) -> V:
        raise NotBoundError(
            f"The map has no key {key!r}.", hint=f"The map contains {', '.join(map(repr, self)) or 'nothing'}."
        )


class VectorView(VectorNames[Any]):
    """A tensor's elements in row-major order: a read-only copy that returns Python numbers or strings."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array.reshape(-1)
        self._array.flags.writeable = False

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._array[index].tolist()
        return self._array.item(index)

    def __len__(self) -> int:
        return int(self._array.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Iterable) and not isinstance(other, str):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self._array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"VectorView({np.array2string(self._array, threshold=12, separator=', ')})"
