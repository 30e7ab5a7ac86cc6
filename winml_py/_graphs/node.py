"""LearningModelOperator, and building its graph node from the operator's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from ..core.base.agreement import as_numpy
from ..core.base.arguments import is_text
from ..core.base.arrays import as_unmasked_array
from ..core.base.messages import did_you_mean, type_name
from ..core.base.winrt_object import Object, private_state
from ..errors import InvalidArgumentError
from ..operators.node import make_attribute
from ..operators.schemas import Parameter, find_signature

T = TypeVar("T")


def require_name(name: object, what: str) -> str:
    """Returns a name, which must be non-empty text."""
    if not is_text(name) or not name:
        raise InvalidArgumentError(f"{what} cannot be {name!r}.", hint="Pass non-empty text.")
    return str(name)


def build_node(operator: LearningModelOperator, name: str, opset: int) -> tuple[NodeProto, list[TensorProto]]:
    """An operator's node, and the constants that it reads; `opset` is of the operator's domain.

    Raises:
        InvalidArgumentError: an unknown operator, input, output or attribute, a missing required one, or a
            value of the wrong type.
    """
    title = f"operator {name} ({operator.type})"
    inputs, outputs, attributes = private_state(operator)
    node = NodeProto(op_type=operator.type, domain=operator.domain, name=name)
    input_parameters: Sequence[Parameter] | None = None
    output_parameters: Sequence[Parameter] | None = None
    if operator.domain in ("", "ai.onnx.ml"):
        signature = find_signature(operator.type, operator.domain, opset)
        input_parameters, output_parameters = signature.inputs, signature.outputs
        inputs = _spell_as_schema(inputs, [part.name for part in signature.inputs], f"{title} has no input")
        outputs = _spell_as_schema(outputs, [part.name for part in signature.outputs], f"{title} has no output")
        attributes = _spell_as_schema(attributes, list(signature.attributes), f"{title} has no attribute")
        node.attribute.extend(make_attribute(signature, part, value) for part, value in attributes.items())
        # The node has all its required outputs, even those that nothing reads.
        required = [part.name for part in signature.outputs[: signature.least_outputs] if not part.is_optional]
        outputs = {part: (f"{name}.{part}",) for part in required} | outputs
    else:  # an operator without a schema: inputs and outputs are in the order of the calls
        node.attribute.extend(_make_untyped_attribute(part, value) for part, value in attributes.items())

    constants = []
    input_names: dict[str, tuple[str, ...]] = {}
    for part, source in inputs.items():
        if isinstance(source, Constant):
            constants.append(as_constant(source.value, f"{name}.{part}"))
            source = (f"{name}.{part}",)
        input_names[part] = source
    node.input.extend(_order_names(input_names, input_parameters, title))
    node.output.extend(_order_names(outputs, output_parameters, title))
    return node, constants


def _spell_as_schema(values: Mapping[str, T], names: Iterable[str], absence: str) -> dict[str, T]:
    """Values by the schema's names; case is ignored. `absence` begins the message for an unknown name."""
    spellings = {name.casefold(): name for name in names}
    for name in values:
        if name.casefold() not in spellings:
            raise InvalidArgumentError(f"The {absence} {name!r}.", hint=did_you_mean(name, spellings.values()))
    return {spellings[name.casefold()]: value for name, value in values.items()}


def _order_names(
    connected: Mapping[str, tuple[str, ...]], parameters: Sequence[Parameter] | None, title: str
) -> list[str]:
    """The names of inputs or outputs by position, "" for omitted ones; the checker refuses missing ones."""
    if parameters is None:
        return [name for names in connected.values() for name in names]
    ordered: list[str] = []
    for parameter in parameters:
        names = connected.get(parameter.name, () if parameter.is_variadic else ("",))
        if len(names) > 1 and not parameter.is_variadic:
            raise InvalidArgumentError(
                f"The {title} expects one name for {parameter.name!r}, got {len(names)}.",
                hint="Pass one name. Only variadic inputs and outputs, such as those of Concat, take a list.",
            )
        ordered += names
    while ordered and not ordered[-1]:
        ordered.pop()
    return ordered


def _make_untyped_attribute(name: str, value: Any) -> AttributeProto:
    """An attribute with the type of its value."""
    value = as_numpy(value)
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value) if value.ndim > 1 else value.tolist()
    return helper.make_attribute(name, value)


class Constant(NamedTuple):
    """A value given in place of an input's name."""

    value: Any


class Connections(NamedTuple):
    """The names and values that an operator is connected to."""

    inputs: dict[str, tuple[str, ...] | Constant]
    outputs: dict[str, tuple[str, ...]]
    attributes: dict[str, Any]


class LearningModelOperator(Object):
    """An operator of ONNX, ONNX Runtime or the program, and its connections.

    Inputs, outputs and attributes have the names of the operator's schema, in any case: those shown on
    https://onnx.ai/onnx/operators. For an operator of another domain, such as `com.microsoft`, inputs and outputs
    are in the order in which they are set, and an attribute has its value's type. Each `set_` method returns the
    operator, so that calls can be chained. Nothing is checked before the operator is added to a builder.

    Args:
        type: the operator's type: "Conv".
        domain: the domain of its schema: "" or "ai.onnx" is ONNX.

    Example:
        >>> from winml_py.experimental import LearningModelOperator
        >>> operator = LearningModelOperator("Gemm").set_input("A", "x").set_constant("B", [[2.0]]).set_output("Y", "y")
        >>> operator.set_attribute("transB", 1)
        <LearningModelOperator Gemm: A, B -> Y>
    """

    def __init__(self, type: str, domain: str = "", /) -> None:  # noqa: A002 - WinRT's name
        self._type = require_name(type, "An operator type")
        if not is_text(domain):
            raise InvalidArgumentError(f"The domain of {type} cannot be {domain!r}.", hint='Pass text, or "" for ONNX.')
        self._domain = "" if domain == "ai.onnx" else domain
        self._name = ""
        self._private_state = Connections({}, {}, {})

    def set_name(self, name: str, /) -> Self:
        """Names the operator; "" lets the builder name it by its type and a number."""
        if not is_text(name):
            raise InvalidArgumentError(f"Expected the operator's name as text, got {name!r}.")
        self._name = name
        return self

    def set_input(self, operator_input_name: str, input_name: str | Iterable[str], /) -> Self:
        """Connects an input.

        Args:
            operator_input_name: its name in the schema.
            input_name: an input or constant of the model, or an output of another operator; a list of them if the
                schema takes any number.
        """
        self._private_state.inputs[self._require_part_name(operator_input_name)] = self._require_names(input_name)
        return self

    def set_constant(self, operator_input_name: str, default_value: object, /) -> Self:
        """Sets an input to a value: a tensor, an array, a number or a list. Python's floats become float32.

        Tensors and arrays are read when the operator is added.
        """
        self._private_state.inputs[self._require_part_name(operator_input_name)] = Constant(default_value)
        return self

    def set_output(self, operator_output_name: str, output_name: str | Iterable[str], /) -> Self:
        """Names an output, for other operators and the outputs of the model; takes a list like `set_input`."""
        self._private_state.outputs[self._require_part_name(operator_output_name)] = self._require_names(output_name)
        return self

    def set_attribute(self, name: str, value: object, /) -> Self:
        """Sets an attribute: to a tensor, as in Windows ML, or to a number, text, an array or a list."""
        self._private_state.attributes[self._require_part_name(name)] = value
        return self

    def _require_part_name(self, name: str) -> str:
        return require_name(name, f"The name of an input, output or attribute of {self._type}")

    def _require_names(self, names: str | Iterable[str]) -> tuple[str, ...]:
        several = [names] if isinstance(names, str) or not isinstance(names, Iterable) else names
        return tuple(require_name(name, f"A name that {self._type} is connected to") for name in several)

    @property
    def name(self) -> str:
        """The name from `set_name`; otherwise "" until the builder has numbered the operator."""
        return self._name

    @property
    def type(self) -> str:
        """The operator's type."""
        return self._type

    @property
    def domain(self) -> str:
        """The domain of its schema; "" is ONNX."""
        return self._domain

    def __repr__(self) -> str:
        name = f" {self._name!r}" if self._name else ""
        inputs, outputs = ", ".join(self._private_state.inputs), ", ".join(self._private_state.outputs)
        return f"<LearningModelOperator {self._type}{name}: {inputs} -> {outputs}>"


def as_constant(value: object, name: str) -> TensorProto:
    """A tensor, array, number or list as a constant of a graph; Python's floats become float32."""
    array = as_unmasked_array(as_numpy(value))
    if not hasattr(value, "dtype") and array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype.kind in "UO" and all(isinstance(element, str) for element in array.flat):
        return numpy_helper.from_array(array.astype(object), name)
    if array.dtype.kind in "biufc":
        return numpy_helper.from_array(array, name)
    raise InvalidArgumentError(
        f"The constant {name} is a {type_name(value)} with an unsupported element type: {array.dtype}.",
        hint="Pass a tensor, an array, a number or a list of numbers or of text.",
    )
