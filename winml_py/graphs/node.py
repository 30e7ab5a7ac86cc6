"""LearningModelOperator, and the node of a graph that it becomes, by the operator's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import onnx
from onnx import AttributeProto, NodeProto, SparseTensorProto, TensorProto, TypeProto, defs, helper
from onnx.defs import OpSchema

from ..core.base.arguments import is_text
from ..core.base.arrays import Array
from ..core.base.messages import did_you_mean
from ..core.base.winrt_object import Object, inside
from ..errors import InvalidArgumentError, NotSupportedError
from .values import as_array, as_constant, require_name


class BuiltNode(NamedTuple):
    """A node, and the constants that it reads."""

    node: NodeProto
    constants: list[TensorProto]


def build_node(operator: LearningModelOperator, name: str, opset: int) -> BuiltNode:
    """The node that an operator becomes.

    Args:
        operator: what was connected.
        name: of the node.
        opset: the version of the operator set of its domain.

    Raises:
        InvalidArgumentError: there is no such operator, input, output or attribute, one that is needed is missing, or
            a value is of another type.
    """
    schema = schema_of(operator.type, operator.domain, opset)
    words = f"operator {name} ({operator.type})"
    _require_no_graphs(schema, words)
    connections = _in_schema_spelling(inside(operator), schema, words)
    constants = {part: as_constant(value.value, f"{name}.{part}") for part, value in _constants(connections)}
    inputs = {
        part: (constants[part].name,) if isinstance(value, Constant) else value
        for part, value in connections.inputs.items()
    }
    node = NodeProto(op_type=operator.type, domain=operator.domain, name=name)
    node.input.extend(_positional_names(inputs, None if schema is None else schema.inputs, words, "input"))
    node.output.extend(
        _positional_names(connections.outputs, None if schema is None else schema.outputs, words, "output", name)
    )
    node.attribute.extend(_attributes(connections, schema, words))
    return BuiltNode(node, list(constants.values()))


def _require_no_graphs(schema: OpSchema | None, operator: str) -> None:
    parts = [] if schema is None else schema.attributes.values()
    if any(part.type in (OpSchema.AttrType.GRAPH, OpSchema.AttrType.GRAPHS) for part in parts):
        raise NotSupportedError(
            f"The {operator} has a graph of its own inside, which this builder does not make.",
            hint="Build models with If, Loop or Scan with spox, and load them; see docs/how-to/building-models.md.",
        )


def _constants(connections: Connections) -> Iterable[tuple[str, Constant]]:
    return [(part, value) for part, value in connections.inputs.items() if isinstance(value, Constant)]


def _in_schema_spelling(connections: Connections, schema: OpSchema | None, operator: str) -> Connections:
    if schema is None:
        return connections
    return Connections(
        match_names(connections.inputs, [part.name for part in schema.inputs], f"The {operator} has no input"),
        match_names(connections.outputs, [part.name for part in schema.outputs], f"The {operator} has no output"),
        match_names(connections.attributes, schema.attributes, f"The {operator} has no attribute"),
    )


def _positional_names(
    names_by_parameter: Mapping[str, tuple[str, ...]],
    parameters: Sequence[OpSchema.FormalParameter] | None,
    operator: str,
    what: str,
    unnamed: str = "",
) -> list[str]:
    """The names of inputs or outputs by position.

    Args:
        names_by_parameter: by the schema's names.
        parameters: the schema's; None keeps the order in which they came.
        operator: its name and type, for messages.
        what: "input" or "output".
        unnamed: what the names of outputs that were not set begin with, where the operator has to give them.

    Raises:
        InvalidArgumentError: one that the operator needs is missing.
    """
    if parameters is None:
        return [name for names in names_by_parameter.values() for name in names]
    missing = [part.name for part in parameters if _is_needed(part) and not names_by_parameter.get(part.name)]
    if what == "output" and any(names_by_parameter.values()):  # the others are made, too, and nothing reads them
        names_by_parameter = {**names_by_parameter, **{part: (f"{unnamed}.{part}",) for part in missing}}
    elif missing or what == "output":
        part = [*missing, parameters[0].name][0]
        raise InvalidArgumentError(
            f"The {operator} has no {what} {part!r} set, and needs one.",
            hint=f"Call set_{what}({part!r}, name)" + (", or set_constant." if what == "input" else "."),
        )
    return in_schema_order(names_by_parameter, parameters, operator, what)


def _is_needed(part: OpSchema.FormalParameter) -> bool:
    return part.option is Option.Single or (part.option is Option.Variadic and part.min_arity > 0)


def _attributes(connections: Connections, schema: OpSchema | None, operator: str) -> list[AttributeProto]:
    needed = [] if schema is None else [name for name, part in schema.attributes.items() if part.required]
    missing = [name for name in needed if name not in connections.attributes]
    if missing:
        raise InvalidArgumentError(
            f"The {operator} needs the attribute {missing[0]!r}.", hint=f"Call set_attribute({missing[0]!r}, value)."
        )
    return [attribute(name, value, kind_in(schema, name), operator) for name, value in connections.attributes.items()]


# Attributes of operators: from tensors, numbers and lists to what a schema asks for.


_READY = (TensorProto, SparseTensorProto, TypeProto)
_WORDS: dict[int, tuple[str, str]] = {
    AttributeProto.INT: ("a whole number", "biu"),
    AttributeProto.FLOAT: ("a number", "iuf"),
    AttributeProto.STRING: ("text", "O"),
    AttributeProto.INTS: ("whole numbers", "biu"),
    AttributeProto.FLOATS: ("numbers", "iuf"),
    AttributeProto.STRINGS: ("text", "O"),
}
_LIST_OF: dict[int, int] = {
    AttributeProto.INT: AttributeProto.INTS,
    AttributeProto.FLOAT: AttributeProto.FLOATS,
    AttributeProto.STRING: AttributeProto.STRINGS,
}
_LISTS = tuple(_LIST_OF.values())


def attribute(name: str, value: object, kind: int | None, operator: str) -> AttributeProto:
    """An attribute of a node.

    Args:
        name: in the schema's spelling.
        value: a tensor of one element for a single number or text; or the number, text, list or array itself.
        kind: ONNX's number for its type; None to take the value's.
        operator: its name and type, for messages.

    Raises:
        InvalidArgumentError: the value is of another type.
    """
    what = f"The attribute {name!r} of the {operator}"
    if isinstance(value, _READY):
        return helper.make_attribute(name, value)
    array = as_array(value, what)
    kind = _kind_of(array) if kind is None else kind
    if kind == AttributeProto.TENSOR:
        return helper.make_attribute(name, as_constant(value, name))
    return helper.make_attribute(name, _python_value(array, kind, what), attr_type=kind)


def _kind_of(array: Array) -> int:
    """The type of an attribute that no schema tells."""
    if array.ndim > 1:
        return AttributeProto.TENSOR
    single = {"f": AttributeProto.FLOAT, "O": AttributeProto.STRING}.get(array.dtype.kind, AttributeProto.INT)
    return _LIST_OF[single] if array.ndim else single


def _python_value(array: Array, kind: int, what: str) -> Any:
    if kind not in _WORDS:
        raise InvalidArgumentError(f"{what} is of a type that this builder does not make.")
    words, kinds = _WORDS[kind]
    if array.dtype.kind not in kinds and array.size:
        raise InvalidArgumentError(f"{what} is {words}, and {array.dtype} came.", hint=f"Give {words}.")
    if kind not in _LISTS and array.size != 1:
        raise InvalidArgumentError(f"{what} is {words}, and {array.size} values came.", hint="Give one.")
    values = [_plain(element, kind) for element in array.reshape(-1).tolist()]
    return values if kind in _LISTS else values[0]


def _plain(element: Any, kind: int) -> Any:
    if kind in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        return float(element)
    return element if isinstance(element, str) else int(element)


def kind_in(schema: onnx.defs.OpSchema | None, name: str) -> int | None:
    """ONNX's number for the type of an attribute; None where there is no schema."""
    if schema is None:
        return None
    return int(AttributeProto.AttributeType.Value(schema.attributes[name].type.name))  # type: ignore[attr-defined]


# Schemas of operators: positions of named inputs and outputs, types of attributes.


T = TypeVar("T")
_ONNX_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")

Option = OpSchema.FormalParameterOption


def schema_of(operator: str, domain: str, opset: int) -> OpSchema | None:
    """The schema of an operator; None for operators that are not ONNX's own, of which `onnx` knows nothing.

    Raises:
        InvalidArgumentError: ONNX has no such operator in that version of the operator set.
    """
    if domain == "com.microsoft.experimental":
        raise InvalidArgumentError(
            f"{operator} of {domain} is in no published ONNX Runtime.",
            hint="Its operators are ONNX's own from operator set 17 on: leave the domain out, and IDFT is DFT with "
            "inverse=1.",
        )
    if domain not in _ONNX_DOMAINS:
        return None
    if defs.has(operator, opset, domain) and not defs.get_schema(operator, opset, domain).deprecated:
        return defs.get_schema(operator, opset, domain)
    raise InvalidArgumentError(
        f"Operator set {opset} of {domain or 'ai.onnx'} has no operator {operator!r}.",
        hint=_where(operator, domain, opset),
    )


def _where(operator: str, domain: str, opset: int) -> str:
    versions = [
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if (schema.name, schema.domain) == (operator, domain) and not schema.deprecated
    ]
    if not versions:
        return did_you_mean(operator, {s.name for s in defs.get_all_schemas_with_history() if s.domain == domain})
    if min(versions) > opset:
        return f"It comes with operator set {min(versions)}: LearningModelBuilder.create({min(versions)})."
    return f"Operator set {max(versions)} still had it."


def match_names(values: Mapping[str, T], allowed: Iterable[str], what: str) -> dict[str, T]:
    """Given values by the names that a schema has, whatever the case they are written in.

    Args:
        values: values by names.
        allowed: the names in the schema.
        what: what they are, for the message: "The operator Gemm_0 (Gemm) has no input".

    Raises:
        InvalidArgumentError: a name is not known.
    """
    spellings = {name.casefold(): name for name in allowed}
    for name in values:
        if name.casefold() not in spellings:
            raise InvalidArgumentError(f"{what} {name!r}.", hint=did_you_mean(name, spellings.values()))
    return {spellings[name.casefold()]: value for name, value in values.items()}


def in_schema_order(
    names_by_parameter: Mapping[str, tuple[str, ...]],
    parameters: Sequence[OpSchema.FormalParameter],
    operator: str,
    what: str,
) -> list[str]:
    """The names of an operator's inputs or outputs in the schema's order, "" for those that are left out.

    Args:
        names_by_parameter: one name for each parameter, or several where it takes any number.
        parameters: the schema's.
        operator: its name and type, for messages.
        what: "input" or "output".

    Raises:
        InvalidArgumentError: a list, where the schema takes one.
    """
    names: list[str] = []
    for parameter in parameters:
        connected = names_by_parameter.get(parameter.name, ())
        if len(connected) > 1 and parameter.option is not Option.Variadic:
            raise InvalidArgumentError(
                f"The {operator} has one {what} {parameter.name!r}, and {len(connected)} names came.",
                hint="A list of names is for an operator that takes any number, such as Concat.",
            )
        names += connected or ([] if parameter.option is Option.Variadic else [""])
    while names and not names[-1]:
        names.pop()
    return names


class Constant(NamedTuple):
    """A value that stands where the name of an input could."""

    value: Any


InputSource = tuple[str, ...] | Constant
"""Where an input comes from: names, one for most inputs, or a constant."""


class Connections(NamedTuple):
    """What an operator is connected to: names, constants and attributes by the names that were given."""

    inputs: dict[str, InputSource]
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
    several = [names] if isinstance(names, str) or not isinstance(names, Iterable) else names
    return tuple(require_name(name, f"A name that {what} is connected to") for name in several)
