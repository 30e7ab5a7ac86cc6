"""LearningModelOperator, and the node of a graph that it becomes, by the operator's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from ..core.base.arguments import is_text
from ..core.base.messages import did_you_mean
from ..core.base.winrt_object import Object, private_state
from ..core.features.tensor import Tensor
from ..errors import InvalidArgumentError
from ..operators.node_model import attribute
from ..operators.signature import Parameter, signature_of
from .values import as_constant, require_name

T = TypeVar("T")


def build_node(operator: LearningModelOperator, name: str, opset: int) -> tuple[NodeProto, list[TensorProto]]:
    """The node that an operator becomes, and the constants that it reads; `opset` is of the operator's domain.

    Raises:
        InvalidArgumentError: there is no such operator, input, output or attribute, one that is needed is missing, or
            a value is of another type.
    """
    words = f"operator {name} ({operator.type})"
    given = private_state(operator)
    if operator.domain in ("", "ai.onnx.ml"):
        signature = signature_of(operator.type, operator.domain, opset)
        sources = _in_schema_spelling(given.inputs, [each.name for each in signature.inputs], f"{words} has no input")
        made = _in_schema_spelling(given.outputs, [each.name for each in signature.outputs], f"{words} has no output")
        values = _in_schema_spelling(given.attributes, list(signature.attributes), f"{words} has no attribute")
        attributes = [attribute(signature, part, value) for part, value in values.items()]
    else:  # an operator that no schema tells of: the order of the calls is that of its inputs and outputs
        signature, sources, made = None, given.inputs, given.outputs
        attributes = [_attribute_like(part, value) for part, value in given.attributes.items()]
    constants = [
        as_constant(source.value, f"{name}.{part}") for part, source in sources.items() if isinstance(source, Constant)
    ]
    names = {part: (f"{name}.{part}",) if isinstance(source, Constant) else source for part, source in sources.items()}
    if signature is not None and made:  # the node makes outputs that it always has, also where nothing reads them
        always = signature.outputs[: signature.least_outputs]
        made = {each.name: (f"{name}.{each.name}",) for each in always if not each.is_optional} | made
    node = NodeProto(op_type=operator.type, domain=operator.domain, name=name, attribute=attributes)
    node.input.extend(_in_order(names, None if signature is None else signature.inputs, words, "input"))
    node.output.extend(_in_order(made, None if signature is None else signature.outputs, words, "output"))
    return node, constants


def _in_schema_spelling(values: Mapping[str, T], names: Iterable[str], what: str) -> dict[str, T]:
    """Values by the names of a schema, whatever the case in which they were written."""
    spellings = {name.casefold(): name for name in names}
    for name in values:
        if name.casefold() not in spellings:
            raise InvalidArgumentError(f"The {what} {name!r}.", hint=did_you_mean(name, spellings.values()))
    return {spellings[name.casefold()]: value for name, value in values.items()}


def _in_order(
    connected: Mapping[str, tuple[str, ...]], parameters: Sequence[Parameter] | None, operator: str, what: str
) -> list[str]:
    """The names of inputs or outputs by position, "" for those that are left out."""
    if parameters is None:
        return [name for names in connected.values() for name in names]
    ordered: list[str] = []
    for parameter in parameters:
        names = connected.get(parameter.name, ())
        if not names and not parameter.is_optional and not parameter.is_variadic:
            raise InvalidArgumentError(
                f"The {operator} has no {what} {parameter.name!r} set, and needs one.",
                hint=f"Call set_{what}({parameter.name!r}, name)" + (", or set_constant." if what == "input" else "."),
            )
        if len(names) > 1 and not parameter.is_variadic:
            raise InvalidArgumentError(
                f"The {operator} has one {what} {parameter.name!r}, got {len(names)} names.",
                hint="A list of names is for an operator that takes any number, such as Concat.",
            )
        ordered += names or ([] if parameter.is_variadic else [""])
    while ordered and not ordered[-1]:
        ordered.pop()
    return ordered


def _attribute_like(name: str, value: Any) -> AttributeProto:
    """An attribute of its value's type."""
    if isinstance(value, Tensor):
        value = value.to_numpy()
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value) if value.ndim > 1 else value.tolist()
    return helper.make_attribute(name, value)


class Constant(NamedTuple):
    """A value that stands where the names of an input could."""

    value: Any


class Connections(NamedTuple):
    """What an operator is connected to, by the names that were given."""

    inputs: dict[str, tuple[str, ...] | Constant]
    outputs: dict[str, tuple[str, ...]]
    attributes: dict[str, Any]


class LearningModelOperator(Object):
    """An operator of ONNX, of ONNX Runtime or of the program's own, and what it is connected to.

    Inputs, outputs and attributes have the names of the operator's schema, in any case: those that
    https://onnx.ai/onnx/operators shows. Of an operator of another domain, such as `com.microsoft`, inputs and outputs
    stand in the order in which they are set, and an attribute is of its value's type. Each `set_` method returns the
    operator, so that calls can be chained. Nothing is checked before the operator is added to a builder.

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
        self._private_state = Connections({}, {}, {})

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
        self._private_state.inputs[self._part(operator_input_name)] = self._names(input_name)
        return self

    def set_constant(self, operator_input_name: str, default_value: object, /) -> Self:
        """Gives an input a value: a tensor, an array, a number or a list. Python's floats become float32.

        Tensors and arrays are read when the operator is added.
        """
        self._private_state.inputs[self._part(operator_input_name)] = Constant(default_value)
        return self

    def set_output(self, operator_output_name: str, output_name: str | Iterable[str], /) -> Self:
        """Names an output, as other operators and the outputs of the model refer to it; takes a list as `set_input`."""
        self._private_state.outputs[self._part(operator_output_name)] = self._names(output_name)
        return self

    def set_attribute(self, name: str, value: object, /) -> Self:
        """Sets an attribute: to a tensor, as Windows ML does, or to a number, text, an array or a list."""
        self._private_state.attributes[self._part(name)] = value
        return self

    def _part(self, name: str) -> str:
        return require_name(name, f"The name of an input, output or attribute of {self._type}")

    def _names(self, names: str | Iterable[str]) -> tuple[str, ...]:
        several = [names] if isinstance(names, str) or not isinstance(names, Iterable) else names
        return tuple(require_name(name, f"A name that {self._type} is connected to") for name in several)

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
        inputs, outputs = ", ".join(self._private_state.inputs), ", ".join(self._private_state.outputs)
        return f"<LearningModelOperator {self._type}{name}: {inputs} -> {outputs}>"
