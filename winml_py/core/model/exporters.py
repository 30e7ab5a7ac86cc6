"""What an exporter wrote into a model about its pictures, in words of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..contracts import ultralytics
from ..features.descriptors import FeatureDescriptor, TensorFeatureDescriptor
from ..imaging.contract import OUR_KEYS, WINDOWS_KEYS
from .contract_fit import PictureDescriptor, as_image, fits


def exported(feature: FeatureDescriptor, metadata: Mapping[str, str]) -> FeatureDescriptor:
    """An input as an image with the contract that its exporter states; or as it is, where the model states another.

    Windows ML's keys and ours come first, where the input is denoted an image.
    """
    contract = ultralytics.contract_of(metadata)
    if contract is None or not isinstance(feature, PictureDescriptor) or not fits(feature, contract):
        return feature
    is_denoted = not isinstance(feature, TensorFeatureDescriptor) or feature.unsupported_image_metadata
    if is_denoted and not metadata.keys().isdisjoint((*WINDOWS_KEYS, *OUR_KEYS)):
        return feature
    sides = feature.shape[2:]
    if contract.size is not None and not _leaves_room(sides, contract.size):
        contract = replace(contract, size=None)
    return as_image(feature, contract)


def _leaves_room(sides: tuple[int, ...], size: tuple[int, int]) -> bool:
    """Whether the model leaves a side free, and fixes none to another size."""
    return -1 in sides and all(side in (-1, wanted) for side, wanted in zip(sides, size, strict=True))
