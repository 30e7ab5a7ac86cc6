"""What a model's file states of its pictures: written by the functions that copy and convert models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.base.winrt_object import private_state
from ..core.contracts.labels import LABELS_KEY
from ..core.features.descriptors import ImageFeatureDescriptor, ShapedDescriptor
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..enums import TensorKind

if TYPE_CHECKING:
    from onnx import ModelProto


def denote_images(proto: ModelProto, images: Iterable[ShapedDescriptor], contract: ImageContract) -> dict[str, str]:
    """Denotes inputs as images, and fixes their number of channels. Returns the metadata that state their contract."""
    kinds = {image.name: image.tensor_kind for image in images}
    if contract.tensor_kind is None and set(kinds.values()) == {TensorKind.UINT8}:
        contract = replace(contract, tensor_kind=TensorKind.UINT8)
    for value in proto.graph.input:
        if value.name in kinds:
            value.type.denotation = "IMAGE"
            value.type.tensor_type.shape.dim[contract.axes()[0]].dim_value = contract.channels
    return contract.to_metadata()


def state_published(proto: ModelProto, model: LearningModel) -> None:
    """Writes into a model what only the folder states that it was loaded from: contract, labels and metadata."""
    from onnx import helper

    content = private_state(model)
    parts = content.published.parts
    words = dict(parts.get("metadata", {}))
    if "labels" in parts:
        words[LABELS_KEY] = json.dumps(parts["labels"])
    images = [feature for feature in content.inputs if isinstance(feature, ImageFeatureDescriptor)]
    if "contract" in parts and images:
        words |= denote_images(proto, images, images[0].contract)
    if words:
        helper.set_model_props(proto, {**words, **content.header.metadata})
