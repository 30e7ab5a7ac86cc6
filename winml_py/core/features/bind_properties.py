"""The properties of a bind: Windows ML's and `ImageContract`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from ...enums import BitmapPixelFormat, LearningModelPixelRange
from ...errors import InvalidArgumentError, InvalidBindingError
from ..base.arguments import member, truth
from ..base.arrays import Size
from ..base.messages import did_you_mean, type_name
from ..imaging.contract import ImageContract, size_of
from ..imaging.geometry import BitmapBounds

E = TypeVar("E", bound=IntEnum)

_TENSOR_FORMATS = (BitmapPixelFormat.RGBA8, BitmapPixelFormat.BGRA8, BitmapPixelFormat.GRAY8)


class BindProperties(NamedTuple):
    """What a bind asks for beside the value. None means: as the model says.

    Attributes:
        bounds: the part of the picture to use, stretched to the model's size.
        pixel_format: the order of the tensor's channels; for an array bound as a picture, the array's own.
        pixel_range: what the bytes 0 to 255 become.
        contract: all of how a picture becomes the tensor, in place of what the model says.
        size: height and width of the tensor, where the model leaves them free.
        stays_on_device: whether an output stays in the device's memory.
    """

    bounds: BitmapBounds | None = None
    pixel_format: BitmapPixelFormat | None = None
    pixel_range: LearningModelPixelRange | None = None
    contract: ImageContract | None = None
    size: Size | None = None
    stays_on_device: bool = False

    @classmethod
    def read(cls, properties: Mapping[str, Any] | None, ignores_unknown: bool = False) -> BindProperties:
        """Reads the properties of a bind. Values of None are ignored, as in Windows ML; so are unknown keys, if that is
        asked for.

        Raises:
            InvalidBindingError: a value of the wrong type, or an unknown key.
        """
        if not properties:
            return NO_PROPERTIES
        if not isinstance(properties, Mapping):
            raise InvalidBindingError(
                f"The properties of a bind are a mapping, not {type_name(properties)}.",
                hint='Write {"ImageContract": contract} or {"BitmapBounds": [0, 0, 224, 224]}, say.',
            )
        fields: dict[str, Any] = {}
        for key, value in properties.items():
            if key not in _READERS and not ignores_unknown:
                raise InvalidBindingError(f"There is no property {key!r} of a bind.", hint=did_you_mean(key, _READERS))
            if value is not None and key in _READERS:
                field, read_value = _READERS[key]
                fields[field] = read_value(value)
        return cls(**fields)

    def without_pixel_format(self) -> BindProperties:
        """What is left once the pixel format has said how an array lies."""
        return BindProperties(self.bounds, None, self.pixel_range, self.contract, self.size, self.stays_on_device)

    def override(self, contract: ImageContract) -> ImageContract:
        """The contract with the properties in place of what it says; raises InvalidBindingError for a format that
        Windows ML does not take there.
        """
        contract = self.contract or contract
        if self.pixel_range is None and self.pixel_format is None:
            return contract
        if self.pixel_format is not None and self.pixel_format not in _TENSOR_FORMATS:
            raise InvalidBindingError(
                f"The property BitmapPixelFormat is {self.pixel_format.name}; for the channels of a tensor it is "
                "RGBA8, BGRA8 or GRAY8.",
                hint="To say how an array's pixels lie, use ImageFeatureValue.from_array(array, pixel_format).",
            )
        return _override_contract(contract, self.pixel_range, self.pixel_format)


NO_PROPERTIES = BindProperties()
"""Of a bind that asks for nothing beside the value."""


@lru_cache(64)  # a contract is checked when it is made, which takes longer than tensorizing a small picture
def _override_contract(
    contract: ImageContract, pixel_range: LearningModelPixelRange | None, pixel_format: BitmapPixelFormat | None
) -> ImageContract:
    if pixel_range is not None:
        contract = replace(contract, pixel_range=pixel_range)
    return contract if pixel_format is None else contract.with_pixel_format(pixel_format)


def _bounds(value: Any) -> BitmapBounds:
    try:
        numbers = [operator.index(number) for number in value]
    except TypeError:
        numbers = []
    if len(numbers) != 4 or any(not 0 <= number < 1 << 32 for number in numbers):
        raise InvalidBindingError(
            f"The property BitmapBounds is {value!r}.", hint="It is four whole numbers: x, y, width, height."
        )
    return BitmapBounds(*numbers)


def _contract(value: object) -> ImageContract:
    if not isinstance(value, ImageContract):
        raise InvalidBindingError(
            f"The property ImageContract is {value!r}.", hint="Write ImageContract.imagenet(), or make one."
        )
    return value


def _size(value: object) -> Size | None:
    try:
        return size_of(value)
    except InvalidArgumentError as error:
        raise InvalidBindingError(
            f"The property ImageSize is {value!r}.", hint="It is height and width: (224, 224)."
        ) from error


def _member(enum: type[E], key: str) -> Callable[[Any], E]:
    return lambda value: member(enum, value, f"The property {key}", InvalidBindingError)


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "BitmapBounds": ("bounds", _bounds),
    "BitmapPixelFormat": ("pixel_format", _member(BitmapPixelFormat, "BitmapPixelFormat")),
    "PixelRange": ("pixel_range", _member(LearningModelPixelRange, "PixelRange")),
    "ImageContract": ("contract", _contract),
    "ImageSize": ("size", _size),
    "DisableTensorCpuSync": (
        "stays_on_device",
        lambda value: truth(value, "The property DisableTensorCpuSync", InvalidBindingError),
    ),
}
"""For each key: the field, and what makes its value."""
