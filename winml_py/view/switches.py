"""The page's switches: every member of an image contract and of a scaling, with the metadata's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import IntEnum
from typing import Any

from .._inputs.model import CONTRACTS
from ..core.base.messages import Facts
from ..core.imaging.contract import METADATA_FIELDS, METADATA_KEYS, ImageContract
from ..core.imaging.geometry import ImageScaling
from ..enums import ImageAnchor, ImageRounding
from ..errors import InvalidArgumentError

_LABELS = {
    "Image.BitmapPixelFormat": "Order",
    "Image.NominalPixelRange": "Range",
    "Image.Mean": "Mean",
    "Image.Std": "Std",
    "Image.CropMode": "Crop",
    "Image.Scaling": "Scaling",
    "Image.Kernel": "Kernel",
    "Image.Size": "Size",
    "Image.Pad": "Padding",
    "Image.Gray": "Gray by",
    "Image.Exact": "Exact",
    "Image.Layout": "Layout",
    "Image.DataType": "Type",
}
"""The switches by their keys, in the order of the page."""

_WORDS = {
    "Rgb8": "RGB",
    "Bgr8": "BGR",
    "Gray8": "gray",
    "NominalRange_0_255": "0 to 255",
    "Normalized_0_1": "0 to 1",
    "Normalized_1_1": "-1 to 1",
    "Center": "middle",
    "Stretch": "stretch",
    "Letterbox": "letterbox",
    "UInt8": "uint8",
    "Float16": "float16",
    "Float": "float32",
    "Windows": "Windows ML",
    "Luma": "luma, as Pillow",
    "True": "yes",
    "False": "no",
}
"""Clearer words for the metadata's values."""

_NUMBERS = {"Image.Mean": "channels", "Image.Std": "channels", "Image.Pad": "3", "Image.Size": "2"}
"""How many numbers these members have."""


def controls() -> list[Facts]:
    """Each member of a contract: its metadata key, its label, its choices or count of numbers, its default."""
    return [
        {"key": key, "label": label, "default": _word(key, getattr(ImageContract(), METADATA_FIELDS[key][0]))}
        | _kind(key)
        for key, label in _LABELS.items()
    ]


def _kind(key: str) -> Facts:
    if key in _NUMBERS:
        return {"kind": "numbers", "count": _NUMBERS[key]}
    if key == "Image.Scaling":
        return {"kind": "scaling", "fields": _scaling_fields()}
    choices = [{"value": word, "label": _WORDS.get(word) or _spell(word)} for word in METADATA_FIELDS[key][1]]
    if key == "Image.DataType":
        choices.insert(0, {"value": "", "label": "the model's"})
    return {"kind": "choice", "choices": choices}


def _spell(word: str) -> str:
    """`AntialiasedCubic` as "antialiased cubic"."""
    return word if word.isupper() else "".join(f" {c.lower()}" if c.isupper() else c for c in word).strip()


def _word(key: str, value: object) -> str:
    """A value as written in the metadata; "" if they omit it."""
    words = METADATA_FIELDS[key][1]
    return (
        next((word for word, meaning in words.items() if meaning == value), "") if words and value is not None else ""
    )


def _scaling_fields() -> list[Facts]:
    """Each member of a scaling: its name, its type, its default."""
    found = []
    for field in fields(ImageScaling):
        default = getattr(ImageScaling(), field.name)
        facts: Facts = {"name": field.name, "default": _scaling_word(default)}
        if isinstance(default, (ImageRounding, ImageAnchor)):
            facts["choices"] = [_scaling_word(member) for member in type(default)]
        elif isinstance(default, bool):
            facts["choices"] = ["False", "True"]
        found.append(facts)
    return found


def _scaling_word(value: object) -> str:
    return value.name.lower() if isinstance(value, IntEnum) else "" if value is None else str(value)


def contract_of(words: object) -> ImageContract:
    """The contract of the page's switches."""
    if not isinstance(words, Mapping) or not all(isinstance(word, str) for pair in words.items() for word in pair):
        raise InvalidArgumentError("Expected an object of texts as contract.", hint='Such as {"Image.Mean": "0.5"}.')
    if unknown := sorted(set(words) - {*METADATA_KEYS}):
        raise InvalidArgumentError(
            f"Unknown contract key {unknown[0]}.", hint=f"Known: {', '.join(sorted(METADATA_KEYS))}."
        )
    try:
        return ImageContract.from_metadata({key: word for key, word in words.items() if word})
    except InvalidArgumentError as error:
        for key, label in _LABELS.items():  # the message names a metadata key, but here the user filled in a field
            if f"{key} is " in error.message:
                raise InvalidArgumentError(f"The setting {label} is {words[key]!r}.", hint=error.hint) from error
        raise


def contract_facts(contract: ImageContract) -> Facts:
    """A contract in the page's form, and in one line."""
    return {"words": contract.to_metadata(), "text": describe(contract), "channels": contract.channels}


def describe(contract: ImageContract) -> str:
    """A contract in one line, in the switches' words, without members that have their default."""
    words, parts = contract.to_metadata(), []
    for key, label in _LABELS.items():
        if key not in words:
            continue
        word = words[key].replace(",", ", ")
        if METADATA_FIELDS[key][1]:
            word = _WORDS.get(word) or _spell(word)
        elif key == "Image.Scaling":
            word = word.replace("_", " ").replace("=", " ") or "none"
        parts.append(f"{label.lower()} {word}")
    return "; ".join(parts)


def presets() -> list[Facts]:
    """The named contracts."""
    return [{"name": name} | contract_facts(make()) for name, make in CONTRACTS.items()]


def python_of(contract: ImageContract) -> tuple[str, set[str]]:
    """A contract as a Python expression, and the names that it needs from `winml_py`."""
    for name, make in CONTRACTS.items():
        if contract == make():
            return "ImageContract()" if name == "windows" else f"ImageContract.{name}()", {"ImageContract"}
    names = {"ImageContract"}
    parts = []
    for field in fields(ImageContract):
        value = getattr(contract, field.name)
        if value != getattr(ImageContract(), field.name) or field.name in ("pixel_format", "pixel_range"):
            parts.append(f"{field.name}={_python(value, names)}")
    lines = "".join(f"    {part},\n" for part in parts)
    return f"ImageContract(\n{lines})", names


def _python(value: Any, names: set[str]) -> str:
    if isinstance(value, IntEnum):
        names.add(type(value).__name__)
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, ImageScaling):
        names.add("ImageScaling")
        default = ImageScaling()
        pairs = ((field.name, getattr(value, field.name)) for field in fields(ImageScaling))
        stated = [f"{name}={_python(each, names)}" for name, each in pairs if each != getattr(default, name)]
        return f"ImageScaling({', '.join(stated)})"
    return repr(value)
