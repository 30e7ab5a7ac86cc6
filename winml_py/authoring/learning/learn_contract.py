"""Learning an image contract from a model's training code: call it with pictures, solve, and prove the result."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import ExifTags, Image

from ...core.base.arrays import Array
from ...core.features.descriptors import ShapedDescriptor
from ...core.imaging.contract import ImageContract
from ...core.model.contracts import fitting_inputs
from ...core.model.model import LearningModel
from ...enums import BitmapPixelFormat, ImageGray, LearningModelPixelRange, TensorLayout
from ...errors import InvalidArgumentError, NotSupportedError
from ..evidence import ContractEvidence
from ..picture_function import PictureFunction, PictureKind, PictureTensor
from .candidates import choose, find_undetermined
from .measure import Area, measure_area, measure_numbers
from .probe_images import LARGEST_SIZES, SIZES, Numbers, texture
from .proof import explain, prove
from .rules import find_rules, tensor_of

_RANGES = {
    LearningModelPixelRange.ZERO_TO255: (1.0, 0.0),
    LearningModelPixelRange.ZERO_TO_ONE: (1 / 255, 0.0),
    LearningModelPixelRange.MINUS_ONE_TO_ONE: (1 / 127.5, -1.0),
}
"""The factors and summands of the ranges that need no mean and no std."""


@dataclass(frozen=True)
class LearnedContract:
    """The result of `learn_contract`, and its differences from the function.

    Attributes:
        contract: the function's contract. Mean and std are given, for 0 to 1, if it has none of the three ranges.
        function: its full name.
        pictures: its argument: "pillow", "path", "rgb", "bgr" or "gray".
        calls: how often it was called.
        proven_on: the number of fresh pictures in the comparison.
        mean_difference: gray levels between the function's tensor and that of a bind, over all pictures.
        largest_difference: the same, for a single number.
        evidence: selected numbers of the function's tensors, which `write_contract` also writes into the model.
        undetermined: fields of the contract that could have other values: no picture shows them.
        notes: other facts for a program, for example that the function scales in floating point.
    """

    contract: ImageContract
    function: str
    pictures: PictureKind
    calls: int
    proven_on: int
    mean_difference: float
    largest_difference: float
    evidence: ContractEvidence = field(repr=False)
    undetermined: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def learn_contract(
    function: Callable[..., Any],
    *,
    pictures: PictureKind | None = None,
    model: LearningModel | str | os.PathLike[str] | None = None,
    inputs: Iterable[str] = (),
    seed: int = 0,
) -> LearnedContract:
    """Finds the contract of a function that turns a picture into a model's tensor.

    The function is called up to 400 times, with generated pictures: single colours (order, range, mean, std), ramps
    that carry coordinates (scaling, cropping, padding), texture (the kernel), and sizes in which two remaining rules
    differ. Then the contract is compared with it on 50 fresh pictures, and on about 50 decisive ones: below,
    at and above each limit, up to 4032x3024 and 9000x700 pixels, dark, bright and flat. What a contract cannot express
    is refused, with the reason. The function runs in this process, without restrictions.

    Args:
        function: takes a picture, as its argument or as `image=` or `images=`. It returns an array, or something with
            `numpy()` or DLPack, of two to five dimensions, alone or in a dict, tuple or list. It is copied at once.
        pictures: its argument: "pillow" for Pillow images, "path" for the path of a file, "rgb", "bgr" or "gray" for an
            array of uint8. None tries Pillow images, then paths. The channel order of an array must be stated: the
            result does not show it.
        model: a model, or its path: the function's tensor must fit its input.
        inputs: the model's inputs that are pictures; by default those whose shape fits.
        seed: the seed of the pictures.

    Raises:
        InvalidArgumentError: the function raises, returns no tensor of a picture, or one that does not fit the model.
        NotSupportedError: no contract matches the function: the message states the reason, the closest contract, and
            its difference.

    Example:
        >>> import numpy as np
        >>> from PIL import Image
        >>> from winml_py.authoring import learn_contract
        >>> def prepare(image):
        ...     pixels = np.asarray(image.resize((64, 64), Image.Resampling.BILINEAR), np.float32)
        ...     return (pixels / 255).transpose(2, 0, 1)[None]
        >>> learn_contract(prepare).contract
        <ImageContract RGB8, zero_to_one, stretch, antialiased_linear, size 64 64>
    """
    prepare = PictureFunction(function, pictures)
    probe = texture((120, 160), np.random.default_rng(seed))
    first = prepare(probe)
    for _ in range(3):
        _require_same(prepare, first, prepare(probe))
    numbers = measure_numbers(prepare)
    areas = [measure_area(prepare, size, numbers) for size in SIZES]
    colours = _colours(first, numbers, areas)
    if model is not None:
        colours = _fit_model(prepare, model, set(inputs), colours, areas)
    rules = find_rules(areas)
    if not rules:
        _require_same(prepare, first, prepare(probe))
        raise NotSupportedError(
            f"{prepare.name} places pictures by an unknown rule: {_describe(areas)}.",
            hint="Scale and crop in the program, and learn the rest; or bind the function's tensor.",
        )
    candidates = choose(prepare, colours, rules, numbers, seed + 1)
    candidate = candidates[0]
    proof = prove(prepare, candidate, rules, numbers, seed + 2)
    evidence = ContractEvidence.take(
        lambda pixels: prepare(pixels).numbers, prepare.name, candidate.contract, seed, prepare.pictures, LARGEST_SIZES
    )
    _require_same(prepare, first, prepare(probe))  # even after all the other pictures
    notes = list(find_quirks(prepare, seed + 3))
    if proof.tiny_differ is not None:
        height, width = proof.tiny_differ
        notes.append(f"it places tiny pictures differently, for example {width}x{height}")
    reason = "" if proof.is_close else explain(prepare, candidate, numbers, proof)
    if not proof.holds:
        raise NotSupportedError(
            f"No contract matches {prepare.name}{f': {reason}' if reason else ''}. The closest is "
            f"{candidate.contract.describe()}: {proof.mean:.2f} gray levels away on average, {proof.most:.0f} at most.",
            hint="Bind the function's tensor.",
        )
    return LearnedContract(
        candidate.contract,
        prepare.name,
        prepare.pictures,
        prepare.calls,
        proof.pictures,
        proof.mean,
        proof.most,
        evidence,
        tuple(find_undetermined(areas, candidates)),
        tuple(notes + [reason] * bool(reason)),
    )


def _require_same(prepare: PictureFunction, first: PictureTensor, again: PictureTensor) -> None:
    if first.numbers.shape != again.numbers.shape or not np.array_equal(first.numbers, again.numbers):
        raise NotSupportedError(
            f"{prepare.name} returns other numbers when called again with one picture: it is random, or has state.",
            hint="Learn the function for evaluation, not for training.",
        )


def _fit_model(
    prepare: PictureFunction,
    source: LearningModel | str | os.PathLike[str],
    names: set[str],
    colours: ImageContract,
    areas: Sequence[Area],
) -> ImageContract:
    """The colours in the layout that the model takes, because programs transpose such tensors.

    Raises:
        InvalidArgumentError: no input takes such tensors, or the input takes other sizes, so that a bind would make
            other tensors than the function.
    """
    model = source if isinstance(source, LearningModel) else LearningModel.load(source)
    tensor = tensor_of(areas)
    other = TensorLayout.NHWC if colours.layout is TensorLayout.NCHW else TensorLayout.NCHW
    unsized = replace(colours, size=None)  # another size than the model's has words of its own, below
    turned = replace(unsized, layout=other)
    features = [each for each in model.input_features if isinstance(each, ShapedDescriptor)]
    named = [each for each in features if not names or each.name in names]
    if named and not any(each.fits(unsized) for each in named) and any(each.fits(turned) for each in named):
        colours, unsized = replace(colours, layout=other), turned
    for feature in fitting_inputs(model.input_features, unsized, names):
        sides = _sides_of(feature, colours)
        if any(wanted not in (-1, given) for wanted, given in zip(sides, tensor, strict=True)):
            given = "x".join(str(side or "any") for side in tensor)
            raise InvalidArgumentError(
                f"{prepare.name} returns tensors of {given} (height x width), but {feature.name} takes "
                f"{sides[0]}x{sides[1]}.",
                hint="Learn the function with the settings that this model was trained with.",
            )
    return colours


def _sides_of(feature: ShapedDescriptor, contract: ImageContract) -> tuple[int, int]:
    _, height, width = contract.axes()
    return feature.shape[height], feature.shape[width]


def _describe(areas: Sequence[Area]) -> str:
    """Some pictures, and their sizes in the tensor."""
    return "; ".join(
        f"{area.picture[1]}x{area.picture[0]} becomes {area.target.width}x{area.target.height} in a tensor of "
        f"{area.tensor[1]}x{area.tensor[0]}"
        for area in (*areas[:2], *areas[-2:])
    )


# Colours.


def _colours(answer: PictureTensor, numbers: Numbers, areas: Sequence[Area]) -> ImageContract:
    """A contract's order, range, mean, std, padding and size."""
    order = BitmapPixelFormat.GRAY8
    if numbers.order:
        order = BitmapPixelFormat.RGB8 if numbers.order == (0, 1, 2) else BitmapPixelFormat.BGR8
    pixel_range, mean, std = _range_of(numbers)
    height, width = tensor_of(areas)
    size = (height, width) if height and width else None
    gray = ImageGray.LUMA if numbers.is_luma else ImageGray.WINDOWS
    return ImageContract(order, pixel_range, mean, std, answer.layout, pad=_pad(numbers, areas), size=size, gray=gray)


def _range_of(numbers: Numbers) -> tuple[LearningModelPixelRange, tuple[float, ...], tuple[float, ...]]:
    """Range, mean and std: the numbers allow several forms, and this is the canonical one."""
    for pixel_range, (factor, summand) in _RANGES.items():
        if np.allclose(numbers.factors, factor, rtol=1e-5) and np.allclose(numbers.summands, summand, atol=2e-6):
            return pixel_range, (), ()
    std = 1 / (255 * numbers.factors)
    mean = -numbers.summands * std
    return LearningModelPixelRange.ZERO_TO_ONE, tuple(map(_shorten, mean)), tuple(map(_shorten, std))


def _shorten(value: float) -> float:
    """The shortest decimal number with the same float32: the one that a person wrote."""
    for digits in range(1, 9):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= 2e-7 * max(abs(value), 0.1):
            return short
    return float(value)


def _pad(numbers: Numbers, areas: Sequence[Area]) -> tuple[int, int, int]:
    """The padding's RGB. A number between two levels is rounded, by at most half a level."""
    padding = next((area.padding for area in areas if area.padding is not None), None)
    if padding is None:
        return 0, 0, 0
    levels = np.rint((padding - numbers.summands) / numbers.factors)
    if levels.min() < 0 or levels.max() > 255:
        raise NotSupportedError(f"The padding is {padding.tolist()}, which is not the tensor of any colour.")
    if not numbers.order:
        return int(levels[0]), int(levels[0]), int(levels[0])
    red, green, blue = (int(levels[numbers.order.index(colour)]) for colour in range(3))
    return red, green, blue


# The function's treatment of ordinary files: turned by EXIF, gray, partly transparent.
#
# A bind applies EXIF orientation, takes gray for three equal colours, and ignores transparency. No contract changes
# that, so if the function differs, a note says so.


_TURNED_SIZE = (90, 120)
"""Height and width: not square, so that a picture turned on its side shows."""

_CLOSE = 0.1
"""The share of the difference between two different pictures: two tensors closer than this are of one picture."""


def find_quirks(prepare: PictureFunction, seed: int) -> Iterator[str]:
    """Where the function treats files differently from a bind, as sentences.

    Args:
        prepare: the function; one that takes arrays sees no files.
        seed: the seed of the pictures.
    """
    if prepare.pictures not in ("pillow", "path"):
        return
    pixels = texture(_TURNED_SIZE, np.random.default_rng(seed), 0, 255)
    plain = Image.fromarray(pixels)
    upright = _numbers_of(prepare, plain)
    turned = _numbers_of(prepare, plain.transpose(Image.Transpose.ROTATE_270))
    if _nearest(_numbers_of(prepare, _with_orientation(plain)), turned, upright) == 1:
        yield "it ignores EXIF orientation, but a bind applies it"
    gray = plain.convert("L")
    if not _is_same(_numbers_of(prepare, gray), _numbers_of(prepare, gray.convert("RGB")), upright):
        yield "it raises for gray pictures, or treats them unlike three equal colours, as a bind does"
    alpha = Image.fromarray(texture(_TURNED_SIZE, np.random.default_rng(seed + 1), 0, 255)[..., 0])
    see_through = plain.copy()
    see_through.putalpha(alpha)
    if not _is_same(_numbers_of(prepare, see_through), upright, turned):
        ways = [("over black", (0, 0, 0)), ("over white", (255, 255, 255))]
        laid = [
            _numbers_of(prepare, Image.composite(plain, Image.new("RGB", plain.size, colour), alpha))
            for _, colour in ways
        ]
        given = _numbers_of(prepare, see_through)
        nearest = None if given is None else _nearest(given, *laid, upright)
        words = "refuses pictures with transparency" if given is None else "does something with transparency"
        if nearest in (0, 1):
            words = f"composites transparent pictures {ways[nearest][0]}"
        yield f"it {words}, but a bind uses their colours unchanged"


def _with_orientation(image: Image.Image) -> Image.Image:
    """The picture as a camera held upright writes it: a file whose EXIF data turn it clockwise."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    return Image.open(file)


def _numbers_of(prepare: PictureFunction, image: Image.Image) -> Array | None:
    """The tensor of an image; None if the function raises."""
    answer = prepare.call_with(image)
    return None if answer is None else answer.numbers


def _apart(one: Array | None, other: Array | None) -> float:
    if one is None or other is None or one.shape != other.shape:
        return np.inf
    return float(np.abs(one - other).mean())


def _is_same(one: Array | None, other: Array | None, different: Array | None) -> bool:
    """Whether two tensors are of one picture, judged by the distance of a different picture's tensor."""
    scale = _apart(other, different)
    if np.isinf(scale):  # another size: the spread of one picture's numbers serves as well
        scale = 0.0 if other is None else float(np.abs(other - other.mean()).mean())
    return _apart(one, other) <= _CLOSE * scale


def _nearest(given: Array | None, *others: Array | None) -> int | None:
    """The closest of several tensors; None if none has its size."""
    distances = [_apart(given, other) for other in others]
    return None if np.isinf(min(distances)) else int(np.argmin(distances))
