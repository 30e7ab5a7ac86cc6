"""BindProperties: what a bind asks for besides the value: Windows ML's properties, and ours."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ...enums import BitmapPixelFormat, LearningModelPixelRange
from ...errors import InvalidArgumentError, InvalidBindingError
from ..base.arguments import require_bool, require_member
from ..base.arrays import Size
from ..base.messages import did_you_mean, type_name
from ..imaging.contract import BitmapBounds, ImageContract
from ..imaging.scaling import require_size


class BindProperties(NamedTuple):
    """What a bind asks for besides the value. None means: as the model states.

    Attributes:
        bounds: the part of the picture to use, stretched to the model's size.
        pixel_format: the order of the tensor's channels, or of an array's if it is bound as a picture.
        pixel_range: what the bytes 0 to 255 become.
        contract: how a picture becomes the tensor, in place of the model's contract.
        size: height and width of the tensor, where the model leaves them free.
        stays_on_device: whether an output stays in the device's memory.
        is_strict: whether properties of pictures are refused for numbers, on which they have no effect.
    """

    bounds: BitmapBounds | None = None
    pixel_format: BitmapPixelFormat | None = None
    pixel_range: LearningModelPixelRange | None = None
    contract: ImageContract | None = None
    size: Size | None = None
    stays_on_device: bool = False
    is_strict: bool = False

    @classmethod
    def read(cls, properties: Mapping[str, Any], is_silent: bool = False) -> BindProperties:
        """Reads the properties of a bind.

        Values of None are ignored, as in Windows ML. With `is_silent`, unknown keys are ignored, too.

        Raises:
            InvalidBindingError: a value of the wrong type, or an unknown key.
        """
        if not isinstance(properties, Mapping):
            raise InvalidBindingError(
                f"Expected a mapping of bind properties, got {type_name(properties)}.",
                hint='Pass {"ImageContract": contract} or {"BitmapBounds": [0, 0, 224, 224]}, for example.',
            )
        fields: dict[str, Any] = {}
        for key, value in properties.items():
            if key not in _FIELDS and not is_silent:
                raise InvalidBindingError(f"Unknown bind property {key!r}.", hint=did_you_mean(key, _FIELDS))
            if value is not None and key in _FIELDS:
                fields[_FIELDS[key]] = _read_property(key, value)
        return cls(**fields, is_strict=not is_silent)

    def refuse_picture_properties(self, name: str, value: object) -> None:
        """Refuses properties of pictures for a value that is bound as numbers; see `is_strict`."""
        for key, field in _FIELDS.items() if self.is_strict else ():
            if key != "DisableTensorCpuSync" and getattr(self, field) is not None:
                raise InvalidBindingError(
                    f"The property {key} applies only to pictures, but {type_name(value)} is bound to {name} as "
                    "numbers.",
                    hint=f"Omit {key}, or bind a picture: ImageFeatureValue.from_array(array, pixel_format).",
                )

    def refuse_input_properties(self, name: str) -> None:
        """Refuses properties that have no effect on a picture bound to an output; see `is_strict`."""
        for key in ("BitmapBounds", "ImageSize"):
            if self.is_strict and getattr(self, _FIELDS[key]) is not None:
                raise InvalidBindingError(
                    f"The property {key} applies only to inputs, but {name} is an output.",
                    hint=f"Omit {key}. The output is stretched to fill the bound picture.",
                )


_FIELDS = {
    "BitmapBounds": "bounds",
    "BitmapPixelFormat": "pixel_format",
    "PixelRange": "pixel_range",
    "ImageContract": "contract",
    "ImageSize": "size",
    "DisableTensorCpuSync": "stays_on_device",
}
"""The field that each property sets."""

NO_PROPERTIES = BindProperties()
"""The properties of a bind that asks for nothing besides the value."""


def _read_property(key: str, value: Any) -> Any:
    label = f"The property {key}"
    match key:
        case "BitmapPixelFormat":
            return require_member(BitmapPixelFormat, value, label, InvalidBindingError)
        case "PixelRange":
            return require_member(LearningModelPixelRange, value, label, InvalidBindingError)
        case "DisableTensorCpuSync":
            return require_bool(value, label, InvalidBindingError)
        case "ImageContract":
            if isinstance(value, ImageContract):
                return value
            hint = "Pass ImageContract.imagenet() or your own."
        case "ImageSize":
            with suppress(InvalidArgumentError):
                return require_size(value, label)
            hint = "Pass height and width: (224, 224)."
        case _:  # BitmapBounds
            with suppress(TypeError):
                numbers = [operator.index(number) for number in value]
                if len(numbers) == 4 and all(0 <= number < 1 << 32 for number in numbers):
                    return BitmapBounds(*numbers)
            hint = "Pass four whole numbers: x, y, width, height."
    raise InvalidBindingError(f"{label} cannot be {value!r}.", hint=hint)
