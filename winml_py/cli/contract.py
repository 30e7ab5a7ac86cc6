"""`winml-py contract`: say in a model's metadata how pictures become its tensors, or let its nodes do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import click

from ..authoring.asked import Pictures
from ..authoring.build_in import build_in
from ..authoring.evidence import KEY, ContractCheck, check_contract
from ..authoring.learning.learn_contract import LearnedContract, learn_contract
from ..authoring.write_contract import write_contract
from ..core.base.atomic_files import require_folder
from ..core.contracts.files import read_contract
from ..core.contracts.labels import labels_of
from ..core.imaging.contract import ImageContract
from ..core.imaging.formats import layout_of
from ..core.imaging.scaling import ImageScaling
from ..core.model.contracts import stated_contract
from ..core.model.known_answers import KEY as SAMPLES_KEY
from ..core.model.model import LearningModel
from ..enums import (
    BitmapPixelFormat,
    ImageCropMode,
    ImageGray,
    ImageKernel,
    ImageRounding,
    LearningModelPixelRange,
    TensorKind,
    TensorLayout,
)
from ..errors import EvaluationError
from ..inputs import trial
from ..inputs.functions import import_function
from .arguments import PRESETS, Decorator, json_option, labels_option, model_argument, preset_option, written_model
from .failures import naming
from .samples import add_samples, remove_quietly, tell_outdated, temporary_beside
from .style import emit, say

T = TypeVar("T")

_FORMATS = {"rgb": BitmapPixelFormat.RGB8, "bgr": BitmapPixelFormat.BGR8, "gray": BitmapPixelFormat.GRAY8}
_PICTURES = {**_FORMATS, "rgba": BitmapPixelFormat.RGBA8, "bgra": BitmapPixelFormat.BGRA8}
_RANGES = {
    "0..255": LearningModelPixelRange.ZERO_TO255,
    "0..1": LearningModelPixelRange.ZERO_TO_ONE,
    "-1..1": LearningModelPixelRange.MINUS_ONE_TO_ONE,
}
_LAYOUTS = {layout.name.lower(): layout for layout in TensorLayout}
_DTYPES = {"uint8": TensorKind.UINT8, "float16": TensorKind.FLOAT16, "float32": TensorKind.FLOAT}
_CROPS = {mode.name.lower(): mode for mode in ImageCropMode}
_GRAYS = {gray.name.lower(): gray for gray in ImageGray}
_KERNELS = {kernel.name.lower().replace("_", "-"): kernel for kernel in ImageKernel}


def _choice(option: str, field: str, words: Mapping[str, object], **settings: Any) -> Decorator:
    """An option whose words stand for values; without a word, its value is None."""
    choice = click.Choice(list(words))
    return click.option(option, field, type=choice, callback=lambda _, __, word: words.get(word), **settings)


def _numbers(option: str, kind: Callable[[str], float], **settings: Any) -> Decorator:
    """An option of numbers with commas between them."""

    def value(_: click.Context, __: click.Parameter, text: str | None) -> tuple[float, ...] | None:
        try:
            return None if text is None else tuple(map(kind, text.replace(",", " ").split()))
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is not numbers with commas between them.") from error

    return click.option(option, **{"metavar": "R,G,B", **settings}, callback=value)


NARROWEST, WIDEST = 0.05, 300
"""How far apart the numbers of black and white are, at least and at most, in the models that we know: 255 for bytes, 2
for -1 to 1, about 5 with ImageNet's mean and std. And 0 lies between them, or no farther from them than that."""


LEARN_SECONDS = 600.0
"""So long a function may take, which is called some 140 times."""


@click.command()
@model_argument
@written_model
@click.option("--from", "source", type=click.Path(), metavar="FILE", help="A config of Hugging Face's or timm's.")
@click.option("--learn", metavar="FUNCTION", help="module:name or file.py:name, of the training.")
@click.option("--check", is_flag=True, is_eager=True, help="Does MODEL still give what its metadata say?")
@click.option("--sample", "samples", multiple=True, metavar="PICTURE", help='Keeps its answer; or "example"; repeat.')
@click.option("--no-samples", is_flag=True, help="Takes all samples away.")
@preset_option(lambda _, __, word: PRESETS.get(word))
@click.option("--new", "is_new", is_flag=True, help="Begin with Windows ML's rule.")
@_choice("--pixel-format", "pixel_format", _FORMATS, help="The order of the channels.")
@_choice("--range", "pixel_range", _RANGES, help="The range that bytes are scaled to.")
@_numbers("--mean", float, help="Is subtracted from each channel.")
@_numbers("--std", float, help="Each channel is divided by it.")
@_choice("--tensor-layout", "layout", _LAYOUTS, help="The order of the dimensions.")
@_choice("--dtype", "tensor_kind", _DTYPES, metavar="NAME", help=f"{', '.join(_DTYPES)}.")
@_choice("--crop", "crop_mode", _CROPS, metavar="NAME", help=f"{', '.join(_CROPS)}.")
@_choice("--kernel", "kernel", _KERNELS, metavar="KERNEL", help="How pictures are resized.")
@_numbers("--pad", int, help="The colour of the padding of letterbox.")
@_numbers("--size", int, help="Height and width, where the model has none.", metavar="H,W")
@click.option("--shortest-side", type=int, metavar="N", help="Pictures are scaled to it, then cropped.")
@click.option("--longest-side", type=int, metavar="N", help="Pictures are scaled to it, then padded.")
@click.option("--crop-ratio", type=float, metavar="X", help="The shorter side becomes the model's over X.")
@_choice("--gray", "gray", _GRAYS, metavar="NAME", help=f"How colours become gray: {', '.join(_GRAYS)}.")
@click.option("--exact", is_flag=True, default=None, help="Pillow's own levels; slower.")
@click.option("--image", "images", multiple=True, metavar="NAME", help="An image input; all that fit by default.")
@click.option("--build-in", "is_built_in", is_flag=True, help="As nodes: OUTPUT takes bytes.")
@_choice("--pictures", "pictures", _PICTURES, help="The order of bytes: --build-in, --learn.")
@labels_option
@click.option("--suppress", is_flag=True, help="With --build-in: suppressed boxes of YOLO.")
@json_option
def contract(
    model: str,
    output: str,
    images: tuple[str, ...],
    is_built_in: bool,
    learn: str | None,
    check: bool,
    samples: tuple[str, ...],
    no_samples: bool,
    pictures: BitmapPixelFormat | None,
    labels: str | None,
    suppress: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write MODEL with an image contract: its inputs become images; with --build-in, they take bytes. Options change
    the contract that MODEL states; --preset, --from and --new begin another. --learn runs FUNCTION's code. Samples are
    for `winml-py run --check`.
    """
    made = _stated(model, **options)
    changes_samples = bool(samples) or no_samples
    if check:
        if made is not None or output or is_built_in or images or labels or suppress or changes_samples:
            raise click.UsageError("--check writes nothing: it goes with --learn and --pictures alone.")
        _check(model, learn, pictures, as_json)
        return
    if samples and is_built_in:
        raise click.UsageError("--build-in takes bytes of pictures: give it samples afterwards, as NAME=FILE.npy.")
    if samples and no_samples:
        raise click.UsageError("Say --sample or --no-samples: new samples take the place of all others.")
    learned = None
    if learn is not None:
        if made is not None:
            raise click.UsageError("--learn finds the whole contract: say no other option of it.")
        learned = _learn(learn, pictures, model, images)
        made, pictures = learned.contract, None
    if made is None and not is_built_in and not changes_samples:
        raise click.UsageError("Say what the contract is: --learn, --from, --preset, --new, --mean or another.")
    if not is_built_in and (pictures or labels or suppress):
        raise click.UsageError("--pictures, --labels and --suppress go with --build-in: metadata state none.")
    kept: list[str] = []
    with naming(model), _written_before(output, changes_samples) as target:
        if is_built_in:
            pictures = pictures or BitmapPixelFormat.RGB8  # as Pillow and most programs have their bytes
            names = labels_of(labels) if labels else ()
            build_in(model, target, made, images, pictures=pictures, labels=names, suppress=suppress, force=True)
        elif made is not None:
            write_contract(model, target, learned or made, images)
        if changes_samples:
            kept = add_samples(target if made is not None or is_built_in else model, output, samples)
    words = made.describe() if made else "the contract of the model"
    report: dict[str, Any] = {"model": model, "output": output, "contract": words} | (
        {"pictures": pictures.name} if is_built_in and pictures else {}
    )
    if learned is not None:
        told = vars(learned).items()
        report["learned"] = {name: value for name, value in told if name not in ("contract", "evidence")}
    if changes_samples:
        report["samples"] = kept
    emit(report, as_json, lambda _: _show(f"{output}: {words}{_spell_pictures(pictures)}", learned, kept))
    if made:
        _tell_odd_numbers(output, made)
    tell_outdated(output, LearningModel.load(output))


@contextmanager
def _written_before(output: str, is_followed: bool) -> Iterator[str]:
    """Where a model is written that something follows: the output itself appears whole, with all of it."""
    if not is_followed:
        yield output
        return
    require_folder(output)
    path = temporary_beside(output)
    try:
        yield path
    finally:
        remove_quietly(path)


def _show(line: str, learned: LearnedContract | None, samples: Sequence[str]) -> None:
    say(line)
    if learned is not None:
        say(
            f"Learned from {learned.function} in {learned.calls} calls. On {learned.proven_on} other pictures, up to "
            f"{' and '.join(f'{width}x{height}' for height, width in learned.evidence.largest[::2])} pixels: "
            f"{learned.mean_difference:.2f} gray levels away on average, {learned.largest_difference:.0f} at most."
        )
        for note in learned.notes:
            say(f"{note[0].upper()}{note[1:]}.")
        if learned.undetermined:
            say(f"No picture shows what these are, so other values fit, too: {', '.join(learned.undetermined)}.")
    for sample in samples:
        say(f"Sample: {sample}")


def _check(model: str, learn: str | None, pictures: BitmapPixelFormat | None, as_json: bool) -> None:
    """Proves a learned contract here, and says what differs."""
    words = _words_for(pictures)
    with naming(model):
        if learn is None:
            loaded = LearningModel.load(model)
            if KEY not in loaded.metadata and SAMPLES_KEY in loaded.metadata:
                raise click.UsageError(
                    f"{model}: It has samples, and no learned contract: winml-py run {model} --check."
                )
            made = check_contract(loaded)
        else:
            made = _call_foreign(learn, _check_here, learn, words, model)
    facts = {"model": model, "check": {**vars(made), "is_right": made.is_right}}
    emit(facts, as_json, lambda _: _show_check(model, made))
    if not made.is_right:
        raise click.exceptions.Exit(1)


def _show_check(model: str, made: ContractCheck) -> None:
    if made.is_right:
        say(
            f"{model}: right. Pictures become what {made.function} made of them: {made.mean_difference:.2f} gray "
            f"levels away on average, {made.largest_difference:.0f} at most."
        )
    for problem in made.problems:
        say(f"{model}: {problem}", is_error=True)


def _check_here(text: str, pictures: Pictures | None, model: str) -> ContractCheck:
    return check_contract(LearningModel.load(model), function=import_function(text), pictures=pictures)


def _words_for(pictures: BitmapPixelFormat | None) -> Pictures | None:
    words: dict[BitmapPixelFormat, Pictures] = {
        BitmapPixelFormat.RGB8: "rgb",
        BitmapPixelFormat.BGR8: "bgr",
        BitmapPixelFormat.GRAY8: "gray",
    }
    if pictures is not None and pictures not in words:
        raise click.UsageError("A function takes pictures in rgb, bgr or gray.")
    return words[pictures] if pictures else None


def _learn(text: str, pictures: BitmapPixelFormat | None, model: str, inputs: tuple[str, ...]) -> LearnedContract:
    """Learns in a process of its own: the function is somebody's, and may do anything."""
    return _call_foreign(text, _learn_here, text, _words_for(pictures), model, inputs)


def _call_foreign(text: str, function: Callable[..., T], *arguments: object) -> T:
    try:
        return trial.call_foreign(LEARN_SECONDS, function, *arguments)
    except trial.ProcessEndedError as error:
        raise EvaluationError(f"{text} ended its process: {error}.", hint="Call it in Python, and see why.") from error
    except TimeoutError:
        raise EvaluationError(
            f"{text} was not done in {LEARN_SECONDS:g} s.", hint="Call winml_py.authoring.learn_contract in Python."
        ) from None


def _learn_here(text: str, pictures: Pictures | None, model: str, inputs: tuple[str, ...]) -> LearnedContract:
    with naming(model):
        loaded = LearningModel.load(model)
    return learn_contract(import_function(text), pictures=pictures, model=loaded, inputs=inputs)


def _tell_odd_numbers(output: str, contract: ImageContract) -> None:
    """Says to standard error where mean and std were of bytes, and the range is another, or the other way round."""
    for factor, black in contract.affine():
        white = black + 255 * factor
        low, high = sorted((black, white))
        apart = high - low
        if not (NARROWEST <= apart <= WIDEST and low <= apart and high >= -apart):
            say(
                f"{output}: Black becomes {black + 0:.4g} and white {white:.4g}, as in hardly any model. Is the mean "
                f"or the std of another range? Say it: --range {' or '.join(_RANGES)}.",
                is_error=True,
            )
            return


def _spell_pictures(pictures: BitmapPixelFormat | None) -> str:
    return f"; takes {pictures.name} bytes, height x width x {layout_of(pictures).channels}" if pictures else ""


def _stated(model: str, preset: Any, source: str | None, is_new: bool, **fields: Any) -> ImageContract | None:
    """The contract that the options state, which may be changes of the model's own; None without options."""
    fields = {name: value for name, value in fields.items() if value is not None}
    if bool(preset) + bool(source) + is_new > 1:
        raise click.UsageError("Say --preset, --from or --new: each of them begins a whole contract.")
    if source:
        made = read_contract(source)
    elif preset or is_new:
        made = (preset or ImageContract)()
    elif fields:
        with naming(model):
            made = stated_contract(LearningModel.load(model).input_features) or ImageContract()
    else:
        return None
    if "pixel_format" in fields and not fields.keys() & {"mean", "std"}:
        # A preset's mean and std are of colours, whatever the order that the model wants them in.
        made = made.with_pixel_format(fields.pop("pixel_format"))
    return replace(made, **_with_scaling(made, fields))


def _with_scaling(made: ImageContract, fields: Mapping[str, object]) -> dict[str, Any]:
    """The fields of a contract: what options say of sides replaces its way of scaling, and so does a crop mode."""
    sides: dict[str, Any] = {name: fields.get(name) for name in ("shortest_side", "longest_side", "crop_ratio")}
    rest = {name: value for name, value in fields.items() if name not in sides}
    if any(value is not None for value in sides.values()):
        rounding = made.scaling.crop_rounding if made.scaling else ImageRounding.DOWN
        return {**rest, "scaling": ImageScaling(**sides, crop_rounding=rounding)}
    return {**rest, "scaling": None} if "crop_mode" in rest else rest
