"""Which features an image contract fits, and such a feature as an image."""

from __future__ import annotations

from ..enums import TensorKind
from ..imaging.contract import ImageContract
from .descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor, spell_tensor

PictureDescriptor = TensorFeatureDescriptor | ImageFeatureDescriptor

_KINDS = {TensorKind.FLOAT, TensorKind.FLOAT16, TensorKind.UINT8}


def fits(feature: FeatureDescriptor, contract: ImageContract) -> bool:
    """Whether a feature is a tensor of pictures as the contract describes them."""
    if not isinstance(feature, PictureDescriptor) or len(feature.shape) != 4:
        return False
    kinds = _KINDS & {contract.tensor_kind or feature.tensor_kind}
    return feature.tensor_kind in kinds and feature.shape[contract.axes()[0]] == contract.channels


def as_image(feature: FeatureDescriptor, contract: ImageContract) -> ImageFeatureDescriptor:
    """The feature as an image with this contract, which fits it."""
    assert isinstance(feature, PictureDescriptor)
    return ImageFeatureDescriptor(
        feature.name, feature.description, contract, feature.tensor_kind, feature.shape, feature.dimension_names
    )


def spell_type(feature: FeatureDescriptor) -> str:
    """The type with all sizes, of an image too."""
    if isinstance(feature, PictureDescriptor):
        return spell_tensor(feature.tensor_kind, feature.shape)
    return feature.expects()
