"""LearningModelOperator: one operator of a model that is being built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from ..core.base.arguments import is_text
from ..core.base.winrt_object import Object
from ..errors import InvalidArgumentError
from .values import require_name


class Constant(NamedTuple):
    """A value that stands where the name of an input could."""

    value: Any


Source = tuple[str, ...] | Constant
"""Where an input comes from: names, one for most inputs, or a constant."""


class Connections(NamedTuple):
    """What an operator is connected to: names, constants and attributes by the names that were given."""

    inputs: dict[str, Source]
    outputs: dict[str, tuple[str, ...]]
    attributes: dict[str, Any]


class LearningModelOperator(Object):
    """An operator of ONNX, of ONNX Runtime or of the program's own, and what it is connected to.

    Inputs, outputs and attributes have the names of the operator's schema, in any case: those that
    https://onnx.ai/onnx/operators shows. Of an operator that `onnx` has no schema of, such as one of `com.microsoft`,
    inputs and outputs stand in the order in which they are set, and an attribute is of its value's type.
    Each `set_` method returns the operator, so that calls can be chained. Nothing is checked before the operator is
    added to a builder.

    Args:
        type: what the operator is called: "Conv".
        domain: where its schema is from: "" or "ai.onnx" is ONNX.

    Example:
        >>> from winml_py.experimental import LearningModelOperator
        >>> operator = LearningModelOperator("Gemm").set_input("A", "x").set_constant("B", [[2.0]]).set_output("Y", "y")
        >>> operator.set_attribute("transB", 1)
        <LearningModelOperator Gemm: A, B -> Y>
    """

    def __init__(self, type: str, domain: str = "", /) -> None:  # noqa: A002 - WinRT's name
        self._type = require_name(type, "The type of an operator")
        if not is_text(domain):
            raise InvalidArgumentError(f"The domain of {type} is {domain!r}.", hint='It is text, "" for ONNX.')
        self._domain = "" if domain == "ai.onnx" else domain
        self._name = ""
        self._inside = Connections({}, {}, {})

    def set_name(self, name: str, /) -> Self:
        """Names the operator; "" leaves it to the builder, which numbers those of a type."""
        if not is_text(name):
            raise InvalidArgumentError(f"The name of an operator is {name!r}.", hint="It is text.")
        self._name = name
        return self

    def set_input(self, operator_input_name: str, input_name: str | Iterable[str], /) -> Self:
        """Connects an input.

        Args:
            operator_input_name: its name in the schema.
            input_name: an input or constant of the model, or an output of another operator; a list of them, where the
                schema takes any number.
        """
        self._inside.inputs[self._part(operator_input_name, "input")] = _names(input_name, f"{self._type}'s input")
        return self

    def set_constant(self, operator_input_name: str, default_value: object, /) -> Self:
        """Gives an input a value: a tensor, an array, a number or a list. Python's floats become float32.

        Tensors and arrays are read when the operator is added.
        """
        self._inside.inputs[self._part(operator_input_name, "input")] = Constant(default_value)
        return self

    def set_output(self, operator_output_name: str, output_name: str | Iterable[str], /) -> Self:
        """Names an output, as other operators and the outputs of the model refer to it; a list, where there are any
        number.
        """
        self._inside.outputs[self._part(operator_output_name, "output")] = _names(output_name, f"{self._type}'s output")
        return self

    def set_attribute(self, name: str, value: object, /) -> Self:
        """Sets an attribute: to a tensor, as Windows ML does, or to a number, text, an array or a list."""
        self._inside.attributes[self._part(name, "attribute")] = value
        return self

    def _part(self, name: str, what: str) -> str:
        return require_name(name, f"The name of {self._type}'s {what}")

    @property
    def name(self) -> str:
        """What `set_name` set; otherwise "" until the builder has numbered the operator."""
        return self._name

    @property
    def type(self) -> str:
        """What the operator is called."""
        return self._type

    @property
    def domain(self) -> str:
        """Where its schema is from; "" is ONNX."""
        return self._domain

    def __repr__(self) -> str:
        name = f" {self._name!r}" if self._name else ""
        inputs, outputs = ", ".join(self._inside.inputs), ", ".join(self._inside.outputs)
        return f"<LearningModelOperator {self._type}{name}: {inputs} -> {outputs}>"


def _names(names: str | Iterable[str], what: str) -> tuple[str, ...]:
    given = [names] if isinstance(names, str) or not isinstance(names, Iterable) else names
    return tuple(require_name(name, f"A name that {what} is connected to") for name in given)
