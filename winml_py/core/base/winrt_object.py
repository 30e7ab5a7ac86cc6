"""Base classes of WinRT objects: `Object`, and `Closeable` for those that hold resources."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from ...errors import E_NOINTERFACE, InvalidArgumentError
from .messages import type_name

T = TypeVar("T")
I_co = TypeVar("I_co", covariant=True)


class Object:
    """The base of the classes that programs for pywinrt cast to and from; here a cast returns the object itself."""

    __slots__ = ()

    def as_(self, kind: type[T], /) -> T:
        """Returns the object if it is of that class; else raises InvalidArgumentError (E_NOINTERFACE)."""
        if not isinstance(self, kind):
            raise InvalidArgumentError(
                f"Cannot cast {type(self).__name__} to {getattr(kind, '__name__', kind)}.", hresult=E_NOINTERFACE
            )
        return self

    @classmethod
    def _from(cls, value: object, /) -> Self:
        """Does what `as_` does, in the spelling of older programs."""
        if not isinstance(value, cls):
            raise InvalidArgumentError(f"Cannot cast {type_name(value)} to {cls.__name__}.", hresult=E_NOINTERFACE)
        return value


# Closeable: objects that `with` closes.


class Closeable:
    """The base of classes whose `close` a `with` statement calls."""

    __slots__ = ()

    def close(self) -> None:
        """Releases what the object holds. Calling it twice is harmless."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Public objects and their private state, which the packages of the core share, and programs do not see.


class HasPrivateState(Protocol[I_co]):
    """A public object with private state, of a type for each class.

    A model has a `ModelContent`, a session a `SessionState`, a binding a `BindingState`, a tensor a `TensorStorage`, a
    device a `Compiler`.
    """

    @property
    def _private_state(self) -> I_co: ...


def private_state(public: HasPrivateState[I_co]) -> I_co:
    """The private state of a public object."""
    return public._private_state  # noqa: SLF001 - the only access
