"""The schemas of operators, from the onnx package and ONNX Runtime: finding one, its parts, and its documentation."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from onnx import AttributeProto, defs

from ..core.base.arguments import require_whole_number
from ..core.base.messages import did_you_mean
from ..core.runtime.ort.schemas import read_runtime_schemas
from ..errors import InvalidArgumentError

OPSET = 23
"""The default version of ONNX's operators; every supported ONNX Runtime has it."""

RUNTIME_DOMAIN = "com.microsoft"

DOMAINS = ("", "ai.onnx.ml", RUNTIME_DOMAIN)
"""The domains in which an operator is looked for by default."""


class Parameter(NamedTuple):
    """An input or an output. Those of an operator with one `type_name` have the same type."""

    name: str
    type_name: str
    is_optional: bool
    is_variadic: bool


class Signature(NamedTuple):
    """How an operator of a domain is called in one version.

    Attributes:
        attributes: their types, such as `AttributeProto.INTS`, by name.
        least_outputs: the number of outputs that it always has.
    """

    name: str
    domain: str
    opset: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: dict[str, int]
    least_outputs: int


@lru_cache(1024)
def find_signature(name: str, domain: str | None = None, opset: int | None = None) -> Signature:
    """The signature of an operator.

    Without a domain, the operator is looked for in ONNX's own, `ai.onnx.ml` and ONNX Runtime's; without an operator
    set, the version is the default one, or the first that has it.

    Raises:
        InvalidArgumentError: the operator is unknown, or the operator set is no number.
    """
    schema, opset = find_schema(name, domain, opset)
    types = AttributeProto.AttributeType
    return Signature(
        name,
        schema.domain,
        opset,
        tuple(map(_read_parameter, schema.inputs)),
        tuple(map(_read_parameter, schema.outputs)),
        {key: types.Value(attribute.type.name) for key, attribute in schema.attributes.items()},
        schema.min_output,
    )


def _read_parameter(formal: Any) -> Parameter:
    option = formal.option.name
    # The schemas of onnx use the first name, those of ONNX Runtime the second.
    type_name = formal.type_str if hasattr(formal, "type_str") else formal.typeStr
    return Parameter(formal.name, type_name, option == "Optional", option == "Variadic")


def find_schema(name: str, domain: str | None = None, opset: int | None = None) -> tuple[Any, int]:
    """The schema of an operator, and its version; InvalidArgumentError for an unknown one."""
    if opset is not None:
        opset = require_whole_number(opset, "opset", 1)
    domains = DOMAINS if domain is None else ("" if domain == "ai.onnx" else domain,)
    for candidate in domains:
        if candidate == RUNTIME_DOMAIN and (candidate, name) in read_runtime_schemas():
            return read_runtime_schemas()[candidate, name], opset or 1
        if defs.has(name, candidate):
            newest = defs.get_schema(name, candidate).since_version
            default = next(version for version in count(OPSET) if defs.has(name, version, candidate))
            version = opset or (default if candidate == "" else newest)
            if not defs.has(name, version, candidate):
                first = next(version for version in count(1) if defs.has(name, version, candidate))
                raise InvalidArgumentError(
                    f"Opset {version} has no operator {name}.", hint=f"Use opset {first} or later."
                )
            return defs.get_schema(name, version, candidate), version
    where = f" in the domain {domain!r}" if domain is not None else ""
    known = list_operator_names()
    hint = "" if name in known else did_you_mean(name, known)
    raise InvalidArgumentError(f"There is no operator {name!r}{where}.", hint=hint)


@lru_cache(1)
def list_operator_names() -> tuple[str, ...]:
    """The names of all operators that are not deprecated, sorted."""
    schemas = [schema for schema in defs.get_all_schemas() if not schema.deprecated and schema.domain in DOMAINS]
    schemas += [schema for (domain, _), schema in read_runtime_schemas().items() if domain == RUNTIME_DOMAIN]
    return tuple(sorted({schema.name for schema in schemas}))


def make_doc(name: str) -> str:
    """The docstring of an operator: its schema's documentation, and its inputs, attributes and outputs."""
    schema, _ = find_schema(name)
    parts = [*schema.inputs, *schema.attributes.values(), *schema.outputs]
    lines = [f"* `{part.name}`: {' '.join(part.description.split())}" for part in parts]
    title = f"{name} of {schema.domain or 'ai.onnx'}, since version {schema.since_version}."
    return "\n\n".join([title, schema.doc or "", "\n".join(lines)])
