"""Schemas of operators: positions of named inputs and outputs, types of attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from onnx import defs
from onnx.defs import OpSchema

from ..core.base.suggestions import did_you_mean
from ..errors import InvalidArgumentError

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


def matched(given: Mapping[str, T], known: Iterable[str], what: str) -> dict[str, T]:
    """Given values by the names that a schema has, whatever the case they are written in.

    Args:
        given: values by names.
        known: the names in the schema.
        what: what they are, for the message: "The operator Gemm_0 (Gemm) has no input".

    Raises:
        InvalidArgumentError: a name is not known.
    """
    spellings = {name.casefold(): name for name in known}
    for name in given:
        if name.casefold() not in spellings:
            raise InvalidArgumentError(f"{what} {name!r}.", hint=did_you_mean(name, spellings.values()))
    return {spellings[name.casefold()]: value for name, value in given.items()}


def placed(
    given: Mapping[str, tuple[str, ...]], parameters: Sequence[OpSchema.FormalParameter], operator: str, what: str
) -> list[str]:
    """The names of an operator's inputs or outputs in the schema's order, "" for those that are left out.

    Args:
        given: one name for each parameter, or several where it takes any number.
        parameters: the schema's.
        operator: its name and type, for messages.
        what: "input" or "output".

    Raises:
        InvalidArgumentError: a list, where the schema takes one.
    """
    names: list[str] = []
    for parameter in parameters:
        came = given.get(parameter.name, ())
        if len(came) > 1 and parameter.option is not Option.Variadic:
            raise InvalidArgumentError(
                f"The {operator} has one {what} {parameter.name!r}, and {len(came)} names came.",
                hint="A list of names is for an operator that takes any number, such as Concat.",
            )
        names += came or ([] if parameter.option is Option.Variadic else [""])
    while names and not names[-1]:
        names.pop()
    return names
