"""`winml-py info`: what a model takes and gives."""

from __future__ import annotations

from typing import Any

import click

from ..features.descriptors import (
    FREE,
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    spell_kind,
)
from ..session.model import LearningModel
from .failures import failures
from .style import emit, json_option, pairs, say, show


@click.command()
@click.argument("model", type=click.Path())
@json_option
def info(model: str, as_json: bool) -> None:
    """Show what MODEL takes and gives, without running it."""
    with failures():
        loaded = LearningModel.load(model)
    facts = describe_model(loaded, model)
    if as_json:
        emit(facts)
    else:
        _print(facts)


def describe_model(model: LearningModel, path: str) -> dict[str, Any]:
    """The facts about a model, ready for JSON."""
    return {
        "schema_version": 1,
        "path": path,
        "name": model.name,
        "author": model.author,
        "domain": model.domain,
        "description": model.description,
        "version": model.version,
        "size": model.size,
        "precision": model.precision,
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opsets.items()},
        "metadata": dict(model.metadata),
        "inputs": [_feature(feature) for feature in model.input_features],
        "outputs": [_feature(feature) for feature in model.output_features],
    }


def _feature(feature: FeatureDescriptor) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": feature.name, "kind": feature.kind.name.lower()}
    if feature.description:
        facts["description"] = feature.description
    match feature:
        case TensorFeatureDescriptor():
            facts |= {"type": spell_kind(feature.tensor_kind), "shape": _shape(feature.shape, feature.dimension_names)}
            if feature.unsupported_image_metadata:
                facts["note"] = "denoted an image, with image metadata that Windows ML does not support"
        case ImageFeatureDescriptor():
            facts |= {"type": spell_kind(feature.tensor_kind), "shape": _shape(feature.shape, feature.dimension_names)}
            facts |= {"pixel_format": feature.bitmap_pixel_format.name, "pixel_range": feature.pixel_range.name}
            facts |= {"width": _side(feature.width), "height": _side(feature.height)}
            facts["contract"] = feature.contract.describe()
        case MapFeatureDescriptor():
            facts |= {"key": spell_kind(feature.key_kind), "value": _feature(feature.value_descriptor)}
        case SequenceFeatureDescriptor():
            facts["element"] = _feature(feature.element_descriptor)
    return facts


def _shape(shape: tuple[int, ...], names: tuple[str, ...]) -> list[int | str]:
    """Sizes where they are fixed, names or "?" where they are free."""
    return [size if size >= 0 else name or "?" for size, name in zip(shape, names, strict=True)]


def _side(size: int) -> int | None:
    return None if size == FREE else size


def _print(facts: dict[str, Any]) -> None:
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
    pairs(about.items())
    say("")
    rows = []
    for direction in ("inputs", "outputs"):
        for feature in facts[direction]:
            shape = " x ".join(map(str, feature.get("shape", [])))
            rows.append([direction[:-1], feature["name"], feature["kind"], _type(feature), shape, _notes(feature)])
    show(["", "name", "kind", "type", "shape", "notes"], rows, left=6)


def _type(feature: dict[str, Any]) -> str:
    if "element" in feature:
        return f"list of {_type(feature['element'])}"
    if "value" in feature:
        return f"{feature['key']} to {_type(feature['value'])}"
    return str(feature["type"])


def _notes(feature: dict[str, Any]) -> str:
    notes = feature["contract"] if feature["kind"] == "image" else feature.get("note", "")
    return "; ".join(filter(None, (notes, feature.get("description", ""))))
