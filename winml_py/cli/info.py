"""`winml-py info`: a model's inputs and outputs."""

from __future__ import annotations

from textwrap import shorten

import click

from ..core.base.messages import Facts
from ..core.base.winrt_object import private_state
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
    format_kind,
)
from ..core.model.model import LearningModel
from .arguments import json_option, model_argument
from .failures import prefix_errors
from .style import emit, print_line, print_pairs, print_table

_FACTS = ("name", "author", "domain", "description", "version", "size", "precision", "ir_version")


@click.command()
@model_argument
@json_option
def info(model: str, as_json: bool) -> None:
    """Show the inputs, outputs and metadata of a model."""
    with prefix_errors(model):
        facts = _describe_model(LearningModel.load(model), model)
    emit(facts, as_json, _print_model)


def _describe_model(model: LearningModel, path: str) -> Facts:
    return {
        "model": path,
        **{name: getattr(model, name) for name in _FACTS},
        "opsets": {domain or "ai.onnx": version for domain, version in model.opsets.items()},
        "metadata": dict(model.metadata),
        "sources": dict(model.sources),
        "refusal": str(private_state(model).missing_contracts.refusal or ""),
        "inputs": [_describe_feature(feature) for feature in model.input_features],
        "outputs": [_describe_feature(feature) for feature in model.output_features],
    }


def _describe_feature(feature: FeatureDescriptor) -> Facts:
    facts: Facts = {"name": feature.name, "kind": feature.kind.name.lower()}
    if feature.description:
        facts["description"] = feature.description
    if isinstance(feature, ShapedDescriptor):
        names = zip(feature.shape, feature.dimension_names, strict=True)
        facts["type"] = getattr(feature, "onnx_type", "") or format_kind(feature.tensor_kind)
        facts["shape"] = [size if size >= 0 else name or "?" for size, name in names]
    match feature:
        case TensorFeatureDescriptor() if feature.unsupported_image_metadata:
            facts["note"] = "denoted as an image, with image metadata that Windows ML does not support"
        case ImageFeatureDescriptor():
            facts |= {"pixel_format": feature.bitmap_pixel_format.name, "pixel_range": feature.pixel_range.name}
            sides = {"width": feature.width, "height": feature.height}
            facts |= {side: size if size in feature.shape else None for side, size in sides.items()}
            facts["contract"] = feature.contract.describe()
        case MapFeatureDescriptor():
            facts |= {"key": format_kind(feature.key_kind), "value": _describe_feature(feature.value_descriptor)}
        case SequenceFeatureDescriptor():
            facts["element"] = _describe_feature(feature.element_descriptor)
    return facts


def _print_model(facts: Facts) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts["opsets"].items())
    about = {
        "model": facts["name"],
        "description": facts["description"],
        "author": facts["author"],
        "domain": facts["domain"],
        "version": str(facts["version"]),
        "size": f"{facts['size']:,} bytes",
        "precision": facts["precision"],
        "format": f"IR version {facts['ir_version']}, opset {opsets}",
        **facts["metadata"],
    }
    about |= {f"{part} from": file for part, file in facts["sources"].items()}
    about |= {"no contract": facts["refusal"]}
    print_pairs((name, _shorten(value)) for name, value in about.items())
    print_line("")
    rows = []
    for direction in ("input", "output"):
        for feature in facts[f"{direction}s"]:
            shape = " x ".join(map(str, feature.get("shape", [])))
            notes = (feature.get(key) for key in ("contract", "note", "description"))
            notes_text = "; ".join(filter(None, notes))
            rows.append([direction, feature["name"], feature["kind"], _format_type(feature), shape, notes_text])
    print_table(rows, ["", "name", "kind", "type", "shape", "notes"])


def _shorten(text: str) -> str:
    """The beginning of a long text: some models contain their whole vocabulary."""
    return shorten(text, 300, placeholder=f" ... ({len(text):,} characters; --json prints all)")


def _format_type(feature: Facts) -> str:
    if "element" in feature:
        return f"list of {_format_type(feature['element'])}"
    if "value" in feature:
        return f"{feature['key']} to {_format_type(feature['value'])}"
    return str(feature["type"])
