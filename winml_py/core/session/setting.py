"""A setting: an attribute that checks values, and converts them for files and engines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from enum import IntEnum
from itertools import pairwise
from textwrap import dedent
from typing import Any, Generic, TypeVar, overload

from ...errors import InvalidArgumentError
from ..base.messages import did_you_mean

T = TypeVar("T")
S = TypeVar("S")


class Setting(Generic[T, S]):
    """An attribute of session options that checks what a program sets, and converts it for engines and files.

    Programs read a `T`, and set an `S`. The value is in the options' `__dict__`, under the setting's name in files.

    Args:
        default: makes the value of new options.
        check: converts what a program sets, or raises a WinMLError.
        engine: the field of `EngineOptions` that it becomes; "" for none.
        for_engine: converts the value for that field.
        key: its name in files; by default the attribute's.
    """

    def __init__(
        self,
        default: Callable[[], T],
        check: Callable[[S], T],
        engine: str = "",
        for_engine: Callable[[T], Any] = lambda value: value,
        key: str = "",
    ) -> None:
        self.default = default
        self.check = check
        self.engine = engine
        self.for_engine = for_engine
        self.key = key

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = self.key or name
        self._owner, self._name = owner, name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The text below the attribute in its class, which Python does not keep, for `help()`."""
        import ast

        try:
            (declared,) = ast.parse(dedent(inspect.getsource(self._owner))).body
        except OSError:  # a program that was packed without sources
            return None
        for item, after in pairwise(ast.iter_child_nodes(declared)):
            if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == self._name:
                return inspect.cleandoc(ast.literal_eval(after.value)) if isinstance(after, ast.Expr) else None
        return None

    @overload
    def __get__(self, options: None, owner: type) -> Setting[T, S]: ...
    @overload
    def __get__(self, options: object, owner: type) -> T: ...
    def __get__(self, options: object | None, owner: type) -> Setting[T, S] | T:
        if options is None:
            return self
        value: T = vars(options)[self.key]
        return value

    def __set__(self, options: object, value: S) -> None:
        vars(options)[self.key] = self.check(value)

    def to_json(self, value: T) -> Any:
        """The value as JSON has it: enums by their names, dataclasses by their fields."""
        if isinstance(value, IntEnum):
            return value.name.lower()
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        return dict(value) if isinstance(value, Mapping) else value

    def from_json(self, value: Any) -> T:
        """The value from JSON.

        Raises:
            TypeError: a value of another type.
            InvalidArgumentError: the enum has no such member, or the check raises it.
        """
        kind = type(self.default())
        if issubclass(kind, IntEnum):
            words: dict[str, Any] = {member.name.lower(): member for member in kind}
            if value not in words:
                raise InvalidArgumentError(f"{self.key} has no {value!r}.", hint=did_you_mean(value, words))
            value = words[value]
        return self.check(value)


def collect_settings(owner: type) -> dict[str, Setting[Any, Any]]:
    """The settings that a class declares, by their names in files."""
    return {setting.key: setting for setting in vars(owner).values() if isinstance(setting, Setting)}
