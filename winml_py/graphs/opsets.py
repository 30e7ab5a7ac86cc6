"""Versions of operator sets: which belong together, and how two models are brought to the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import ModelProto, NodeProto, OperatorSetIdProto, defs, helper

from ..core.base.arguments import whole_number
from ..core.onnx_file.nodes import convert_opset, messages
from ..errors import NotSupportedError

OLDEST = 7
"""The first operator set that Windows ML and ONNX Runtime support."""

_ML = "ai.onnx.ml"


def require_opset(opset: object) -> int:
    """Returns a version of ONNX's operator set, if the installed `onnx` has it.

    Raises:
        InvalidArgumentError: if the installed `onnx` does not have it.
    """
    return whole_number(opset, "The operator set", OLDEST, defs.onnx_opset_version())


def version_of(domain: str, opset: int) -> int:
    """The version of a domain's operator set that goes with a version of ONNX's own; 1 for unknown domains."""
    if domain == "":
        return opset
    return max((row[3] for row in helper.VERSION_TABLE if row[2] <= opset), default=1) if domain == _ML else 1


def imports_of(domains: Iterable[str], opset: int) -> list[OperatorSetIdProto]:
    """What a model imports whose operators are of these domains."""
    return [helper.make_opsetid(domain, version_of(domain, opset)) for domain in sorted({"", *domains})]


def oldest_ir_version(model: ModelProto) -> int:
    """The oldest version of the ONNX format that can hold a model's operator sets, so that most runtimes read it."""
    opsets = [item for item in model.opset_import if item.domain in ("", _ML)]
    return max(int(helper.find_min_ir_version_for(opsets)), 7)  # from 7 on, nothing that is written here is missing


def _without_alias(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def imported_opsets(model: ModelProto) -> dict[str, int]:
    """The operator sets that a model imports, and its functions: ONNX's own as ""."""
    imports = [*model.opset_import, *(item for function in model.functions for item in function.opset_import)]
    newest: dict[str, int] = {}
    for item in imports:
        domain = _without_alias(item.domain)
        newest[domain] = max(newest.get(domain, 0), item.version)
    return newest


def align_opsets(first: ModelProto, second: ModelProto) -> tuple[ModelProto, ModelProto]:
    """Two models with equal imports: of each operator set the newer version, and of the format, too.

    Raises:
        NotSupportedError: an operator has changed in between, and `onnx` cannot convert it.
    """
    imported = imported_opsets(first), imported_opsets(second)
    newest_versions = {domain: max(part.get(domain, 0) for part in imported) for domain in imported[0] | imported[1]}
    models = tuple(_convert_opsets(model, newest_versions) for model in (first, second))
    imports = [helper.make_opsetid(*item) for item in newest_versions.items()]
    newest = max(model.ir_version for model in models)
    for model in models:
        del model.opset_import[:]
        model.opset_import.extend(imports)
        model.ir_version = max(newest, 4)  # up to 3, weights had to be listed as inputs
    return models[0], models[1]


def _convert_opsets(model: ModelProto, targets: Mapping[str, int]) -> ModelProto:
    for domain, version in imported_opsets(model).items():
        changed = _changed_operator(model, domain, version, targets[domain])
        if changed and domain:
            raise NotSupportedError(
                f"{changed} of {domain} differs between the operator sets {version} and {targets[domain]} of the two "
                "models.",
                hint="Export both models with one version of it.",
            )
        if changed:
            model = _convert(model, version, targets[domain], changed)
    return model


def _changed_operator(model: ModelProto, domain: str, old: int, new: int) -> str:
    """An operator in the model's graph that is another one in the newer version; "" where none is.

    Functions keep the versions that they import themselves.
    """
    if old == new:
        return ""
    nodes = (part for part in messages(model.graph) if isinstance(part, NodeProto))
    operators = (node.op_type for node in nodes if _without_alias(node.domain) == domain)
    return next((operator for operator in operators if not _is_same(operator, domain, old, new)), "")


def _is_same(operator: str, domain: str, old: int, new: int) -> bool:
    if not defs.has(operator, new, domain) or not defs.has(operator, old, domain):
        return False
    since = [defs.get_schema(operator, version, domain).since_version for version in (old, new)]
    return since[0] == since[1]


def _convert(model: ModelProto, old: int, new: int, changed: str) -> ModelProto:
    try:
        return convert_opset(model, new)
    except ValueError as error:
        raise NotSupportedError(
            f"{changed} differs between operator set {old} of the graph {model.graph.name!r} and {new} of the other, "
            f"and cannot be converted: {error}",
            hint=f"Export the model with operator set {new}.",
        ) from error
