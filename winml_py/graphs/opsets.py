"""Versions of operator sets: which belong together, and how two models are brought to the same."""

from __future__ import annotations

from onnx import ModelProto, NodeProto, defs, helper

from ..core.onnx_file.nodes import convert_opset, messages
from ..errors import NotSupportedError

OLDEST = 7
"""The first operator set that Windows ML and ONNX Runtime support."""

_ML = "ai.onnx.ml"


def version_of(domain: str, opset: int) -> int:
    """The version of a domain's operator set that goes with a version of ONNX's own; 1 for unknown domains."""
    if domain == "":
        return opset
    return max((row[3] for row in helper.VERSION_TABLE if row[2] <= opset), default=1) if domain == _ML else 1


def oldest_ir_version(model: ModelProto) -> int:
    """The oldest version of the ONNX format that can hold a model's operator sets, so that most runtimes read it."""
    opsets = [item for item in model.opset_import if item.domain in ("", _ML)]
    return max(int(helper.find_min_ir_version_for(opsets)), 7)  # from 7 on, nothing that is written here is missing


def align_opsets(first: ModelProto, second: ModelProto) -> tuple[ModelProto, ModelProto]:
    """Two models of equal imports and format, the newer ones; raises where `onnx` cannot convert an operator."""
    models, imported = [first, second], [_imported_opsets(first), _imported_opsets(second)]
    newest = {domain: max(part.get(domain, 0) for part in imported) for domain in imported[0] | imported[1]}
    for place, opsets in enumerate(imported):
        for domain, version in opsets.items():
            changed = _changed_operator(models[place], domain, version, newest[domain])
            if not changed:
                continue
            try:
                if domain:
                    raise ValueError("only ONNX's own operators can be")
                models[place] = convert_opset(models[place], newest[domain])
            except ValueError as error:
                raise NotSupportedError(
                    f"{changed} differs between the operator sets {version} and {newest[domain]} of the two models, "
                    f"and cannot be converted: {error}",
                    hint="Export both models with one operator set.",
                ) from error
    imports = [helper.make_opsetid(*item) for item in newest.items()]
    ir_version = max(4, *(model.ir_version for model in models))  # up to 3, weights had to be listed as inputs
    for model in models:
        del model.opset_import[:]
        model.opset_import.extend(imports)
        model.ir_version = ir_version
    return models[0], models[1]


def _imported_opsets(model: ModelProto) -> dict[str, int]:
    imports = [*model.opset_import, *(item for function in model.functions for item in function.opset_import)]
    newest: dict[str, int] = {}
    for item in imports:
        domain = _without_alias(item.domain)
        newest[domain] = max(newest.get(domain, 0), item.version)
    return newest


def _without_alias(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _changed_operator(model: ModelProto, domain: str, old: int, new: int) -> str:
    """An operator in the model's graph that is another one in the newer version; "" where none is."""
    nodes = (part for part in messages(model.graph) if isinstance(part, NodeProto))
    operators = dict.fromkeys(node.op_type for node in nodes if _without_alias(node.domain) == domain)
    for operator in operators if old != new else ():
        since = [
            defs.get_schema(operator, version, domain).since_version if defs.has(operator, version, domain) else 0
            for version in (old, new)
        ]
        if 0 in since or since[0] != since[1]:
            return operator
    return ""
