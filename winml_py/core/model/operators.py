"""ModelOperators: the operators of the program's own that a model was loaded with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ...errors import InvalidArgumentError, ModelNotFoundError
from ..base.messages import type_name
from ..runtime.custom.operator import CustomOperator

Operators = Iterable[CustomOperator | str | os.PathLike[str]]
"""Python functions, and the paths of shared libraries that ONNX Runtime loads."""


class ModelOperators(NamedTuple):
    """Operators, sorted: functions in Python, and the absolute paths of shared libraries."""

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
