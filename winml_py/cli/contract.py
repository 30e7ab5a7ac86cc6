"""`winml-py contract`: say in a model's metadata how pictures become its tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ..enums import BitmapPixelFormat, ImageCropMode, ImageKernel, LearningModelPixelRange, TensorKind, TensorLayout
from ..imaging.contract import ImageContract
from ..tools.write_contract import write_contract
from .failures import failures
from .style import emit, json_option, say

_PRESETS = {
    "imagenet": ImageContract.imagenet,
    "inception": ImageContract.inception,
    "yolo": ImageContract.yolo,
    "clip": ImageContract.clip,
}
_FORMATS = {"rgb": BitmapPixelFormat.RGB8, "bgr": BitmapPixelFormat.BGR8, "gray": BitmapPixelFormat.GRAY8}
_RANGES = {
    "0..255": LearningModelPixelRange.ZERO_TO255,
    "0..1": LearningModelPixelRange.ZERO_TO_ONE,
    "-1..1": LearningModelPixelRange.MINUS_ONE_TO_ONE,
}
_LAYOUTS = {layout.name.lower(): layout for layout in TensorLayout}
_DTYPES = {"uint8": TensorKind.UINT8, "float16": TensorKind.FLOAT16, "float32": TensorKind.FLOAT}
_CROPS = {mode.name.lower(): mode for mode in ImageCropMode}
_KERNELS = {kernel.name.lower().replace("_", "-"): kernel for kernel in ImageKernel}


@click.command()
@click.argument("model", type=click.Path())
@click.option("--output", required=True, type=click.Path(), help="Where to write it; may be MODEL.")
@click.option("--preset", type=click.Choice(list(_PRESETS)), metavar="NAME", help=f"{', '.join(_PRESETS)}.")
@click.option("--pixel-format", type=click.Choice(list(_FORMATS)), help="The order of the channels.")
@click.option("--range", "pixel_range", type=click.Choice(list(_RANGES)), help="What bytes become first.")
@click.option("--mean", metavar="R,G,B", help="Taken off each channel.")
@click.option("--std", metavar="R,G,B", help="Each channel is divided by it.")
@click.option("--layout", type=click.Choice(list(_LAYOUTS)), help="The order of the dimensions.")
@click.option("--dtype", "tensor_kind", type=click.Choice(list(_DTYPES)), metavar="NAME", help=f"{', '.join(_DTYPES)}.")
@click.option("--crop", "crop_mode", type=click.Choice(list(_CROPS)), metavar="NAME", help=f"{', '.join(_CROPS)}.")
@click.option("--kernel", type=click.Choice(list(_KERNELS)), metavar="KERNEL", help="How pictures are scaled.")
@click.option("--pad", metavar="R,G,B", help="The letterbox's ground.")
@click.option("--input", "inputs", multiple=True, metavar="NAME", help="An image; all that fit by default.")
@json_option
def contract(model: str, output: str, inputs: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Write MODEL with an image contract in its metadata.

    Its inputs become images, and pictures bound to them become what the model was trained on.
    """
    if all(value is None for value in options.values()):
        raise click.UsageError("Say what the contract is: --preset, --mean, --std or another.")
    with failures():
        made = _contract(**options)
        write_contract(model, output, made, inputs)
    if as_json:
        emit({"schema_version": 1, "output": output, "contract": made.describe()})
    else:
        say(f"{output}: {made.describe()}")


def _contract(preset: str | None, **options: str | None) -> ImageContract:
    made = _PRESETS[preset]() if preset else ImageContract()
    words: dict[str, dict[str, Any]] = {
        "pixel_format": _FORMATS,
        "pixel_range": _RANGES,
        "layout": _LAYOUTS,
        "tensor_kind": _DTYPES,
        "crop_mode": _CROPS,
        "kernel": _KERNELS,
    }
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None:
            fields[name] = words[name][value] if name in words else _numbers(value, int if name == "pad" else float)
    return replace(made, **fields)


def _numbers(text: str, kind: type[int] | type[float]) -> tuple[int | float, ...]:
    try:
        return tuple(kind(number) for number in text.replace(",", " ").split())
    except ValueError as error:
        raise click.UsageError(f"{text!r} is not numbers with commas between them.") from error
