"""An operator's signature from ONNX's schemas: the names and types of its inputs, outputs and attributes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ..core.base.arguments import whole_number
from ..core.base.messages import did_you_mean
from ..core.runtime.ort.schemas import runtime_schemas
from ..errors import InvalidArgumentError

OPSET = 23
"""The default version of ONNX's operators; every supported ONNX Runtime has it."""

_RUNTIME = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_DOMAINS = ("", "ai.onnx.ml", _RUNTIME)
"""The domains in which an operator is looked for by default."""


class Parameter(NamedTuple):
    """An input or an output. Those with one `type_name` have the same type, one of `types`, such as `tensor(float)`."""

    name: str
    type_name: str
    types: frozenset[str]
    is_optional: bool
    is_variadic: bool


class Attribute(NamedTuple):
    """An attribute: its ONNX type, such as "INTS", and whether it is required."""

    type: str
    is_required: bool


class Signature(NamedTuple):
    """How an operator of a domain is called in one version; it always has `least_outputs`."""

    name: str
    domain: str
    opset: int
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: dict[str, Attribute]
    least_outputs: int


@lru_cache(1024)
def signature_of(name: str, domain: str | None = None, opset: int | None = None) -> Signature:
    """The signature of an operator.

    Without a domain, the operator is looked for in ONNX's own, `ai.onnx.ml` and ONNX Runtime's; without an operator
    set, the version is the default one, or the first that has it.

    Raises:
        InvalidArgumentError: the operator is unknown or deprecated.
    """
    if opset is not None:
        whole_number(opset, "opset", 1)
    schema, opset = find_schema(name, domain, opset)
    if schema.deprecated:
        raise InvalidArgumentError(
            f"The operator {name} is deprecated since opset {schema.since_version}.",
            hint=f"Use an older opset: opset={schema.since_version - 1}.",
        )
    return Signature(
        name,
        schema.domain,
        opset,
        tuple(map(_parameter, schema.inputs)),
        tuple(map(_parameter, schema.outputs)),
        {key: Attribute(value.type.name, value.required) for key, value in schema.attributes.items()},
        schema.min_output,
    )


def find_schema(name: str, domain: str | None = None, opset: int | None = None) -> tuple[Any, int]:
    """The schema of an operator, and its version; InvalidArgumentError for an unknown one."""
    import onnx

    domains = _DOMAINS if domain is None else ("" if domain == "ai.onnx" else domain,)
    for candidate in domains:
        if candidate == _RUNTIME and (candidate, name) in runtime_schemas():
            return runtime_schemas()[candidate, name], opset or 1
        if candidate != _RUNTIME and onnx.defs.has(name, candidate):
            latest = onnx.defs.get_schema(name, candidate)
            versions = [each for each in _all_schemas() if (each.name, each.domain) == (name, candidate)]
            first = min(schema.since_version for schema in versions)
            version = opset or (max(OPSET, first) if candidate == "" else latest.since_version)
            if version < first:
                raise InvalidArgumentError(
                    f"Opset {version} has no operator {name}.", hint=f"It was added in opset {first}."
                )
            return onnx.defs.get_schema(name, version, candidate), version
    where = f" in the domain {domain!r}" if domain is not None else ""
    raise InvalidArgumentError(f"There is no operator {name!r}{where}.", hint=did_you_mean(name, operator_names()))


@lru_cache(1)
def _all_schemas() -> tuple[Any, ...]:
    import onnx

    return tuple(onnx.defs.get_all_schemas_with_history())


@lru_cache(1)
def operator_names() -> tuple[str, ...]:
    """All operators that are not deprecated, sorted."""
    import onnx

    names = {
        schema.name for schema in onnx.defs.get_all_schemas() if not schema.deprecated and schema.domain in _DOMAINS
    }
    return tuple(sorted(names | {name for domain, name in runtime_schemas() if domain == _RUNTIME}))


def doc_of(name: str) -> str:
    """The docstring of an operator: how it is called, and its schema's documentation."""
    schema, _ = find_schema(name)
    attributes = dict(sorted(schema.attributes.items()))
    inputs, outputs = (_list_parameters(values) for values in (schema.inputs, schema.outputs))
    listed = "".join(
        f"    {key}: {value.type.name.lower()}. {_flat(value.description)}\n" for key, value in attributes.items()
    )
    called = ", ".join([*(value.name for value in schema.inputs), *(f"{key}=" for key in attributes)])
    where = schema.domain or "ai.onnx"
    return (
        f"{name}({called})\n\nThe operator {name} of {where}, since its version {schema.since_version}.\n\n"
        f"{(schema.doc or '').strip()}\n\nInputs:\n{inputs}\nOutputs:\n{outputs}\n"
        f"Attributes:\n{listed or '    none'}"
    )


def _list_parameters(values: Any) -> str:
    return "".join(f"    {value.name} ({value.option.name.lower()}): {_flat(value.description)}\n" for value in values)


def _flat(text: str) -> str:
    return " ".join((text or "").split())


def _parameter(value: Any) -> Parameter:
    option = value.option.name
    # The schemas of onnx use the first name, those of ONNX Runtime the second.
    type_name = value.type_str if hasattr(value, "type_str") else value.typeStr
    return Parameter(value.name, type_name, frozenset(value.types), option == "Optional", option == "Variadic")
