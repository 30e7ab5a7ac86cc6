"""Which features an image contract fits, and such a feature as an image."""

from __future__ import annotations

from collections.abc import Iterable, Set

from ...enums import TensorKind
from ...errors import InvalidArgumentError
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor, spell_tensor
from ..imaging.contract import ImageContract

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


def fitting_inputs(
    features: Iterable[FeatureDescriptor], contract: ImageContract, names: Set[str] = frozenset()
) -> list[PictureDescriptor]:
    """The inputs that a contract fits, or those that are named.

    Raises:
        InvalidArgumentError: none fits, or a named one does not.
    """
    known = {feature.name for feature in features}
    if names - known:
        raise InvalidArgumentError(
            f"The model has no input {', '.join(sorted(names - known))}.", hint=f"Its inputs: {', '.join(known)}."
        )
    tensors = (feature for feature in features if isinstance(feature, PictureDescriptor))
    fitting = [tensor for tensor in tensors if tensor.name in (names or known) and fits(tensor, contract)]
    if not fitting or len(fitting) < len(names):
        raise InvalidArgumentError(
            f"No input is a tensor of a {contract.pixel_format.name} picture in {contract.layout.name}: "
            + "; ".join(f"{feature.name} is {spell_type(feature)}" for feature in features)
            + ".",
            hint="A picture's tensor has four dimensions, of which one is the channels. Where one has them in another "
            "order or number, say --tensor-layout or --pixel-format; otherwise the model takes no pictures.",
        )
    return fitting
