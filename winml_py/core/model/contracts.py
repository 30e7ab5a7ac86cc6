"""The image contracts of a model's inputs: those that a program attaches, those that an exporter's metadata state, the
inputs that they fit, and the warning where there is none, or an odd one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence, Set
from copy import copy
from dataclasses import replace
from typing import Any

from ...enums import BitmapPixelFormat, LearningModelPixelRange
from ...errors import InvalidArgumentError, MissingContractWarning, NotBoundError, NotSupportedError, WinMLError
from ..base.collections import NameMap
from ..base.messages import did_you_mean, logger, warn_caller
from ..contracts.exporters import read_exporters_contract
from ..contracts.published import Published
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
    format_kind,
    format_tensor,
)
from ..features.pictures import PreprocessPlan, find_fixed_sides
from ..imaging.contract import METADATA_KEYS, ImageContract


class AttachedContracts(MutableMapping[str, ImageContract]):
    """Contracts by the names of a model's inputs. They replace what the model's file states; the file does not change.

    The model's `input_features` show them at once, and every session of the model uses them from the next bind on.

    Example:
        >>> from winml_py import BitmapPixelFormat, ImageContract, LearningModel
        >>> model = LearningModel.load("models/digits.onnx")
        >>> model.contracts["image"] = ImageContract(BitmapPixelFormat.GRAY8, mean=(33.3,))
        >>> model.input_features[0].contract.mean
        (33.3,)
        >>> model.contracts["image"] = None
    """

    def __init__(self, features: Iterable[FeatureDescriptor], attached: dict[str, ImageContract]) -> None:
        self._features = NameMap({feature.name: feature for feature in features})
        self._attached = attached

    def __setitem__(self, name: str, contract: ImageContract | None) -> None:
        """Attaches a contract to an input, in place of an earlier one; None removes it.

        Raises:
            InvalidArgumentError: the model has no such input, or the contract does not fit it.
            InvalidBindingError: it states another size than the model.
        """
        feature = self._features.get(name)
        if feature is None:
            hint = did_you_mean(name, self._features)
            raise InvalidArgumentError(f"The model has no input {name!r}.", hint=hint)
        name = feature.name
        if contract is None:
            self._attached.pop(name, None)
            return
        if not isinstance(contract, ImageContract):
            raise InvalidArgumentError(
                f"The contract of {name} cannot be {contract!r}.", hint="Pass ImageContract.imagenet() or your own."
            )
        if not feature.fits(contract):
            elements = "" if contract.tensor_kind is None else f", for {format_kind(contract.tensor_kind)}"
            message = f"The input {name} is {format_type(feature)}, but the contract is for "
            message += f"{contract.pixel_format.name} pictures in {contract.layout.name}{elements}."
            raise _make_misfit_error(message, [feature], contract)
        self._attached[name] = contract

    def __getitem__(self, name: str) -> ImageContract:
        feature = self._features.get(name)
        contract = None if feature is None else self._attached.get(feature.name)
        if contract is None:
            hint = did_you_mean(name, self)  # iteration copies the names: other threads may attach contracts
            raise NotBoundError(f"No contract is attached to {name!r}.", hint=hint)
        return contract

    def __delitem__(self, name: str) -> None:
        self[name]  # raises where there is none
        self[name] = None

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._attached))

    def __len__(self) -> int:
        return len(self._attached)

    def __repr__(self) -> str:
        images = (feature for feature in self._features.values() if isinstance(feature, ImageFeatureDescriptor))
        stated = {image.name: image.contract for image in images if image.name not in self._attached}
        return f"AttachedContracts({self._attached!r}" + (f"; the model specifies {stated!r})" if stated else ")")

    def apply_to(self, feature: FeatureDescriptor) -> FeatureDescriptor:
        """The feature as an image with its attached contract; unchanged if none is attached."""
        contract = self._attached.get(feature.name)
        return feature if contract is None else as_image(feature, contract)


# Warnings of pictures bound where nothing states how pictures become numbers.


_ORDERS = {
    BitmapPixelFormat.BGR8: "blue, green, red (BGR)",
    BitmapPixelFormat.RGB8: "red, green, blue (RGB)",
    BitmapPixelFormat.GRAY8: "gray",
}
_RANGES = {
    LearningModelPixelRange.ZERO_TO255: "from 0 to 255",
    LearningModelPixelRange.ZERO_TO_ONE: "from 0 to 1",
    LearningModelPixelRange.MINUS_ONE_TO_ONE: "from -1 to 1",
}


class MissingContracts:
    """Warns of the inputs of one model.

    Attributes:
        refusal: raised instead of the warning: why the contract that the model's folder states cannot be used.
        sound: contracts that the model states, of which nothing is to be said: binds look no further.
    """

    def __init__(
        self,
        features: Iterable[FeatureDescriptor],
        is_silent: bool,
        refusal: WinMLError | None,
    ) -> None:
        self.refusal = refusal
        self._is_silent = is_silent
        self._warned: dict[tuple[str, bool], object] = {}
        contracts = (feature.contract for feature in features if isinstance(feature, ImageFeatureDescriptor))
        self.sound = [contract for contract in contracts if not contract.describe_odd_range()]

    def warn(self, plan: PreprocessPlan, properties: BindProperties = NO_PROPERTIES) -> None:
        """Warns of a picture bound to an input without a contract, or with an odd one; or raises the refusal.

        Each warning appears the first time only.
        """
        name = plan.descriptor.name
        if self.refusal is not None and not plan.is_stated:
            raise copy(self.refusal)
        if self._is_silent:
            return
        if not plan.is_stated:
            text = _describe_assumptions(name, plan.contract, properties)
        elif properties.pixel_range is not None:
            return  # the range is the bind's own
        elif not (odd := plan.contract.describe_odd_range()):
            return
        else:
            numbers = (*plan.contract.mean, *plan.contract.std, *(1 / factor for factor in plan.contract.factor))
            names = " and ".join(name for name in ("mean", "std", "factor") if getattr(plan.contract, name))
            meant = LearningModelPixelRange.ZERO_TO_ONE if max(numbers) <= 1 else LearningModelPixelRange.ZERO_TO255
            text = f"The contract for the input {name!r} is {plan.contract.describe()}. {odd} " + (
                f"No range fits its {names}."
                if meant is plan.contract.pixel_range
                else f"For {names} of {meant.name}, specify pixel_range=LearningModelPixelRange.{meant.name}."
            )
        mine = object()
        if self._warned.setdefault((name, plan.is_stated), mine) is mine:  # only one thread warns
            warn_caller(MissingContractWarning(text))


def _describe_assumptions(name: str, contract: ImageContract, properties: BindProperties) -> str:
    part = "the picture's centre" if properties.bounds is None else "the given bounds"
    return (
        f"No image contract is specified for the input {name!r}. As in Windows ML, the library assumes "
        f"{_ORDERS[contract.pixel_format]}, {_RANGES[contract.pixel_range]}, cropped to {part}. Specify the contract, "
        f"for example model.contracts[{name!r}] = ImageContract.imagenet()."
    )


# Which features an image contract fits, and such a feature as an image.


def apply_exporters_contract(feature: FeatureDescriptor, metadata: Mapping[str, str]) -> FeatureDescriptor:
    """An input as an image with the contract that its exporter states; unchanged if the model states another.

    Windows ML's keys and ours take precedence, where the input is denoted an image.
    """
    contract = read_exporters_contract(metadata)
    if contract is None or not isinstance(feature, ShapedDescriptor) or not feature.fits(replace(contract, size=None)):
        return feature
    is_denoted = not isinstance(feature, TensorFeatureDescriptor) or feature.unsupported_image_metadata
    if is_denoted and not metadata.keys().isdisjoint(METADATA_KEYS):
        return feature
    if not feature.fits(contract) or -1 not in (feature.shape[axis] for axis in contract.axes()[1:]):
        # The size is that of the export. Where it contradicts the model, every bind would be refused.
        contract = replace(contract, size=None)
    return as_image(feature, contract)


def as_image(feature: FeatureDescriptor, contract: ImageContract) -> ImageFeatureDescriptor:
    """The feature as an image with this contract, which must fit it."""
    assert isinstance(feature, ShapedDescriptor)
    return ImageFeatureDescriptor(
        feature.name, feature.description, contract, feature.tensor_kind, feature.shape, feature.dimension_names
    )


def format_type(feature: FeatureDescriptor) -> str:
    """The type with all sizes, also for an image."""
    if isinstance(feature, ShapedDescriptor):
        return format_tensor(feature.tensor_kind, feature.shape)
    return feature.expects()


def require_input_names(features: Iterable[FeatureDescriptor], names: Iterable[object]) -> None:
    """Raises InvalidArgumentError where the model has no input of one of these names."""
    known = [feature.name for feature in features]
    if unknown := sorted({str(name) for name in names}.difference(known)):
        raise InvalidArgumentError(
            f"The model has no input {', '.join(unknown)}.", hint=f"Its inputs: {', '.join(known) or 'none'}."
        )


def find_fitting_inputs(
    features: Iterable[FeatureDescriptor], contract: ImageContract, names: Set[str] = frozenset()
) -> list[ShapedDescriptor]:
    """The inputs that a contract fits, or the named ones; InvalidArgumentError where none fits, or a named one does
    not, and InvalidBindingError where only its size does not.
    """
    require_input_names(features, names)
    named = [feature for feature in features if not names or feature.name in names]
    fitting = [feature for feature in named if isinstance(feature, ShapedDescriptor) and feature.fits(contract)]
    if not fitting or len(fitting) < len(names):
        types = "; ".join(f"{feature.name} is {format_type(feature)}" for feature in features)
        message = f"No input is a tensor of {contract.pixel_format.name} pictures in {contract.layout.name}: {types}."
        raise _make_misfit_error(message, named, contract)
    return fitting


def _make_misfit_error(
    message: str, features: Iterable[FeatureDescriptor], contract: ImageContract
) -> InvalidArgumentError:
    """The error for a contract that does not fit; raises that of a bind, where only its size contradicts a feature."""
    tensors = [feature for feature in features if isinstance(feature, ShapedDescriptor) and len(feature.shape) == 4]
    for tensor in tensors:
        if tensor.fits(replace(contract, size=None)):
            find_fixed_sides(tensor, contract)
    hint = (
        "A picture tensor has four dimensions, one of which holds the channels. If their order or number differs, "
        "specify the contract's layout and pixel_format. Otherwise, the model takes no pictures."
    )
    if contract.channels == 3 and any(feature.shape[contract.axes()[0]] == 1 for feature in tensors):
        hint = "The model takes gray pictures, so set the contract's pixel_format to GRAY8."
    return InvalidArgumentError(message, hint=hint)


# What a published folder states, applied to the inputs, the outputs and the labels of its model.


Features = Sequence[FeatureDescriptor]


def apply_published(
    published: Published, inputs: Features, outputs: Features, labels: tuple[str, ...]
) -> tuple[Features, Published]:
    """Takes from a folder what the model's own file does not state; the log has what contradicts it, or does not fit.

    Returns:
        The inputs, of which one may have become an image; and what the folder states, without what does not count, and
        with an error for a contract that does not fit the model.
    """
    parts, sources, refusal = dict(published.parts), dict(published.sources), published.refusal
    # The model's own contract and labels come first.
    own_contracts = [feature.contract for feature in inputs if isinstance(feature, ImageFeatureDescriptor)]
    own_parts: dict[str, Any] = {"contract": own_contracts[0]} if own_contracts else {}
    if labels:
        own_parts["labels"] = labels
    if own_contracts:
        refusal = None
    for name, own_part in own_parts.items():
        if parts.pop(name, own_part) != own_part:
            message = "%s: The %s in %s and in the model itself differ. The latter are used."
            logger.warning(message, published.folder, name, sources[name])
        sources[name] = sources.get("metadata", sources["model"])
    if "contract" in parts:
        contract = parts["contract"]
        picture_input = _find_picture_input(inputs, contract)
        if picture_input is None:
            size = " x ".join(map(str, contract.size or ["of any size"]))
            types = ", ".join(f"{feature.name}: {format_type(feature)}" for feature in inputs)
            refusal = NotSupportedError(
                f"{sources['contract']}: The contract is for one picture ({size}), but the model takes {types}.",
                hint="Specify the contract: model.contracts[name] = ImageContract(...).",
            )
        else:
            inputs = [as_image(feature, contract) if feature is picture_input else feature for feature in inputs]
    if "labels" in parts:
        count, score_count = len(parts["labels"]), _count_scores(outputs)
        if score_count not in (None, count):
            message = "%s: %s has %d labels for %d scores, so the labels are not used."
            logger.warning(message, published.folder, sources["labels"], count, score_count)
            del parts["labels"], sources["labels"]
    return inputs, Published(published.folder, parts, sources, refusal)


def _find_picture_input(inputs: Features, contract: ImageContract) -> FeatureDescriptor | None:
    """The input that takes the pictures of a folder's contract; None if there is none, or several."""
    fitting = [feature for feature in inputs if isinstance(feature, ShapedDescriptor) and feature.fits(contract)]
    if len(fitting) != 1:
        return None
    (picture_input,) = fitting
    if not contract.size and not contract.scaling.takes_tensor_size:
        # Each picture has another size then, so the input must have free sizes.
        sides = [picture_input.shape[axis] for axis in contract.axes()[1:]]
        if sides != [-1, -1]:
            return None
    return picture_input


def _count_scores(outputs: Features) -> int | None:
    """The number of classes that a model scores, if its only output is a row of scores of known length."""
    if len(outputs) != 1:
        return None
    (output,) = outputs
    if not isinstance(output, ShapedDescriptor) or len(output.shape) != 2 or output.shape[-1] == -1:
        return None
    return output.shape[-1]
