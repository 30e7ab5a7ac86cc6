"""ModelOperators: the operators of the program's own that a model was loaded with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ...errors import InvalidArgumentError, ModelNotFoundError
from ..base.messages import type_name
from ..runtime.custom.operator import CustomOperator

Operators = Iterable[CustomOperator | str | os.PathLike[str]]
"""Python functions, and the paths of shared libraries that ONNX Runtime loads."""


class OperatorProvider(Protocol):
    """What Windows ML calls `ILearningModelOperatorProvider`.

    Attributes:
        operators: those that it provides: `CustomOperator` objects, and paths of shared libraries.
    """

    @property
    def operators(self) -> Operators:
        """Those that it provides."""


class ModelOperators(NamedTuple):
    """Operators, sorted.

    Attributes:
        functions: those in Python.
        libraries: the absolute paths of shared libraries.
    """

    functions: tuple[CustomOperator, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def given(self) -> Operators:
        """All of them, as `LearningModel.load` takes them."""
        return *self.functions, *self.libraries

    @classmethod
    def of(cls, operators: Operators) -> ModelOperators:
        """Sorts what the caller passed.

        Raises:
            InvalidArgumentError: something else, or two functions for one operator.
            ModelNotFoundError: there is no such library.
        """
        if isinstance(operators, (str, bytes, CustomOperator)) or not isinstance(operators, Iterable):
            raise InvalidArgumentError(
                f"Operators are a list, and {type_name(operators)} came.", hint="Write operators=[operator]."
            )
        items = list(operators)
        functions = [operator for operator in items if isinstance(operator, CustomOperator)]
        names = [str(operator) for operator in functions]
        for name in names:
            if names.count(name) > 1:
                raise InvalidArgumentError(f"There are two functions for the operator {name}.", hint="Pass one.")
        paths = [operator for operator in items if not isinstance(operator, CustomOperator)]
        return cls(tuple(functions), tuple(map(_library, paths)))

    @classmethod
    def from_provider(cls, provider: OperatorProvider | None) -> ModelOperators:
        """Those of an operator provider.

        Raises:
            InvalidArgumentError: if the provider has no `operators`.
        """
        if provider is None:
            return cls()
        operators = getattr(provider, "operators", None)
        if operators is None:
            raise InvalidArgumentError(
                f"{type_name(provider)} provides no operators.",
                hint="Give it an attribute `operators`: a list of CustomOperator and of paths of shared libraries.",
            )
        return cls.of(operators)


def _library(path: object) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"An operator is a CustomOperator or the path of a shared library, not {type_name(path)}.",
            hint="Write CustomOperator(function, name, domain, outputs=[...]).",
        )
    absolute = os.path.abspath(os.fsdecode(path))
    if not os.path.isfile(absolute):
        raise ModelNotFoundError(
            f"There is no library of operators {absolute}.", hint="Pass the path of a shared library."
        )
    return absolute
