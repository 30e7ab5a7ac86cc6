"""From an operator to a node of a graph, by the operator's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onnx import AttributeProto, NodeProto, TensorProto
from onnx.defs import OpSchema

from ..errors import InvalidArgumentError, NotSupportedError
from .attributes import attribute, kind_in
from .operator import Connections, Constant, LearningModelOperator, connections_of
from .schema import Option, matched, placed, schema_of
from .values import as_constant


class BuiltNode(NamedTuple):
    """A node, and the constants that it reads."""

    node: NodeProto
    constants: list[TensorProto]


def built_node(operator: LearningModelOperator, name: str, opset: int) -> BuiltNode:
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
    given = _in_schema_spelling(connections_of(operator), schema, words)
    constants = {part: as_constant(value.value, f"{name}.{part}") for part, value in _constants(given)}
    inputs = {
        part: (constants[part].name,) if isinstance(value, Constant) else value for part, value in given.inputs.items()
    }
    node = NodeProto(op_type=operator.type, domain=operator.domain, name=name)
    node.input.extend(_ordered(inputs, None if schema is None else schema.inputs, words, "input"))
    node.output.extend(_ordered(given.outputs, None if schema is None else schema.outputs, words, "output", name))
    node.attribute.extend(_attributes(given, schema, words))
    return BuiltNode(node, list(constants.values()))


def _require_no_graphs(schema: OpSchema | None, operator: str) -> None:
    parts = [] if schema is None else schema.attributes.values()
    if any(part.type in (OpSchema.AttrType.GRAPH, OpSchema.AttrType.GRAPHS) for part in parts):
        raise NotSupportedError(
            f"The {operator} has a graph of its own inside, which this builder does not make.",
            hint="Build models with If, Loop or Scan with spox, and load them; see docs/how-to/building-models.md.",
        )


def _constants(given: Connections) -> Iterable[tuple[str, Constant]]:
    return [(part, value) for part, value in given.inputs.items() if isinstance(value, Constant)]


def _in_schema_spelling(given: Connections, schema: OpSchema | None, operator: str) -> Connections:
    if schema is None:
        return given
    return Connections(
        matched(given.inputs, [part.name for part in schema.inputs], f"The {operator} has no input"),
        matched(given.outputs, [part.name for part in schema.outputs], f"The {operator} has no output"),
        matched(given.attributes, schema.attributes, f"The {operator} has no attribute"),
    )


def _ordered(
    given: Mapping[str, tuple[str, ...]],
    parameters: Sequence[OpSchema.FormalParameter] | None,
    operator: str,
    what: str,
    unnamed: str = "",
) -> list[str]:
    """The names of inputs or outputs by position.

    Args:
        given: by the schema's names.
        parameters: the schema's; None keeps the order in which they came.
        operator: its name and type, for messages.
        what: "input" or "output".
        unnamed: what the names of outputs that were not set begin with, where the operator has to give them.

    Raises:
        InvalidArgumentError: one that the operator needs is missing.
    """
    if parameters is None:
        return [name for names in given.values() for name in names]
    missing = [part.name for part in parameters if _is_needed(part) and not given.get(part.name)]
    if what == "output" and any(given.values()):  # the others are made, too, and nothing reads them
        given = {**given, **{part: (f"{unnamed}.{part}",) for part in missing}}
    elif missing or what == "output":
        part = [*missing, parameters[0].name][0]
        raise InvalidArgumentError(
            f"The {operator} has no {what} {part!r} set, and needs one.",
            hint=f"Call set_{what}({part!r}, name)" + (", or set_constant." if what == "input" else "."),
        )
    return placed(given, parameters, operator, what)


def _is_needed(part: OpSchema.FormalParameter) -> bool:
    return part.option is Option.Single or (part.option is Option.Variadic and part.min_arity > 0)


def _attributes(given: Connections, schema: OpSchema | None, operator: str) -> list[AttributeProto]:
    needed = [] if schema is None else [name for name, part in schema.attributes.items() if part.required]
    missing = [name for name in needed if name not in given.attributes]
    if missing:
        raise InvalidArgumentError(
            f"The {operator} needs the attribute {missing[0]!r}.", hint=f"Call set_attribute({missing[0]!r}, value)."
        )
    return [attribute(name, value, kind_in(schema, name), operator) for name, value in given.attributes.items()]
