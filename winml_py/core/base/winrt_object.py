"""What WinRT objects can do: `Object`, and `Closeable` for those that hold something."""

from __future__ import annotations

from typing import Protocol, Self, TypeVar

from ...errors import E_NOINTERFACE, InvalidArgumentError
from .messages import type_name

T = TypeVar("T")
I_co = TypeVar("I_co", covariant=True)


class Object:
    """The base of the classes that programs for pywinrt cast to and from: here an object is what it is."""

    __slots__ = ()

    def as_(self, kind: type[T], /) -> T:
        """The object itself, if it is of that class; else an InvalidArgumentError (E_NOINTERFACE)."""
        if not isinstance(self, kind):
            raise InvalidArgumentError(
                f"A {type(self).__name__} is no {getattr(kind, '__name__', kind)}.", hresult=E_NOINTERFACE
            )
        return self

    @classmethod
    def _from(cls, value: object, /) -> Self:
        """What `as_` does, as older programs write it."""
        if not isinstance(value, cls):
            raise InvalidArgumentError(f"A {type_name(value)} is no {cls.__name__}.", hresult=E_NOINTERFACE)
        return value


# Closeable: objects that `with` closes.


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


# Public objects and their insides: what the rooms of the core share of an object, and programs do not see.


class HasPrivateState(Protocol[I_co]):
    """A public object: a model has its content, a session its engine, a binding its evaluation, and so on."""

    @property
    def _private_state(self) -> I_co: ...


def private_state(public: HasPrivateState[I_co]) -> I_co:
    """The inside of a public object."""
    return public._private_state  # noqa: SLF001 - the one way in
