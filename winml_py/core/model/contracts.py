"""The image contracts that a program attaches to a loaded model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from ...errors import InvalidArgumentError, NotBoundError
from ..base.suggestions import did_you_mean
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, spell_kind
from ..imaging.contract import ImageContract
from .contract_fit import as_image, fits, spell_type


class AttachedContracts(MutableMapping[str, ImageContract]):
    """Contracts by the names of a model's inputs. They replace what the model's file states, and change no file.

    The model's `input_features` show them at once, and every session of the model uses them from the next bind on.

    Example:
        >>> from winml_py import BitmapPixelFormat, ImageContract, LearningModel
        >>> model = LearningModel.load("models/digits.onnx")
        >>> model.contracts["image"] = ImageContract(BitmapPixelFormat.GRAY8, mean=(33.3,))
        >>> model.input_features[0].contract.mean
        (33.3,)
        >>> model.contracts["image"] = None
    """

    def __init__(self, features: Iterable[FeatureDescriptor]) -> None:
        self._features = {feature.name: feature for feature in features}
        self._attached: dict[str, ImageContract] = {}

    def __setitem__(self, name: str, contract: ImageContract | None) -> None:
        """Attaches a contract to an input, in place of one before it; None takes it away.

        Raises:
            InvalidArgumentError: the model has no such input, or the contract does not fit it.
        """
        feature = self._features.get(name)
        if feature is None:
            hint = did_you_mean(name, self._features)
            raise InvalidArgumentError(f"The model has no input {name!r}.", hint=hint)
        if contract is None:
            self._attached.pop(name, None)
            return
        if not isinstance(contract, ImageContract):
            raise InvalidArgumentError(
                f"The contract of {name} is {contract!r}.", hint="Write ImageContract.imagenet(), or make one."
            )
        if not fits(feature, contract):
            raise InvalidArgumentError(
                f"The input {name} is {spell_type(feature)}, and the contract is of {contract.pixel_format.name} "
                f"pictures in {contract.layout.name}{_spell_kind(contract)}.",
                hint="Such an input has four dimensions, of which one is the channels; check pixel_format and layout.",
            )
        self._attached[name] = contract

    def __getitem__(self, name: str) -> ImageContract:
        try:
            return self._attached[name]
        except KeyError:
            raise self._missing(name) from None

    def __delitem__(self, name: str) -> None:
        if self._attached.pop(name, None) is None:
            raise self._missing(name)

    def _missing(self, name: str) -> NotBoundError:
        hint = did_you_mean(name, self._attached)
        return NotBoundError(f"No contract is attached to {name!r}.", hint=hint)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._attached))

    def __len__(self) -> int:
        return len(self._attached)

    def __repr__(self) -> str:
        return f"AttachedContracts({self._attached!r})"

    def get(self, name: str, default: Any = None, /) -> Any:
        """The contract that is attached to an input, or the default; without the words of an error."""
        return self._attached.get(name, default)

    def applied(self, feature: FeatureDescriptor) -> FeatureDescriptor:
        """The feature as an image with the contract that is attached to it; or as it is, where none is."""
        contract = self.get(feature.name)
        return feature if contract is None else as_image(feature, contract)


class LiveFeatures(Mapping[str, FeatureDescriptor]):
    """A session's inputs by name, each with the contract that is attached to it when it is looked at."""

    def __init__(self, features: Iterable[FeatureDescriptor], contracts: AttachedContracts) -> None:
        self._features, self._contracts = {feature.name: feature for feature in features}, contracts
        self._images: dict[str, ImageFeatureDescriptor] = {}

    def __getitem__(self, name: str) -> FeatureDescriptor:
        contract = self._contracts.get(name)
        if contract is None:
            return self._features[name]
        image = self._images.get(name)  # kept, because every bind asks
        if image is None or image.contract is not contract:
            image = self._images[name] = as_image(self._features[name], contract)
        return image

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)


def _spell_kind(contract: ImageContract) -> str:
    return "" if contract.tensor_kind is None else f", for {spell_kind(contract.tensor_kind)}"
