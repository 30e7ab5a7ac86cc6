"""An image contract from the code that a model was trained with: asked with pictures, solved, and proven."""

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
from ..asked import Answer, AskedFunction, Pictures
from ..evidence import ContractEvidence
from .candidates import choose, find_undetermined
from .measure import Area, measure_area, measure_numbers
from .probe_images import LARGEST, SIZES, Numbers, texture
from .proof import explain, prove
from .rules import find_rules, tensor_of

_RANGES = {
    LearningModelPixelRange.ZERO_TO255: (1.0, 0.0),
    LearningModelPixelRange.ZERO_TO_ONE: (1 / 255, 0.0),
    LearningModelPixelRange.MINUS_ONE_TO_ONE: (1 / 127.5, -1.0),
}
"""Factor and summand of the ranges that need no mean and no std."""


@dataclass(frozen=True)
class LearnedContract:
    """What `learn_contract` has found out, and how far it is from the function.

    Attributes:
        contract: what the function does. Mean and std are stated where it is none of the three ranges, for 0 to 1.
        function: its full name.
        pictures: what it was given: "pillow", "path", "rgb", "bgr" or "gray".
        calls: how often it was called.
        proven_on: the number of fresh pictures that it was compared on.
        mean_difference: gray levels between the function's tensor and the one that a bind makes, over all pictures.
        largest_difference: the same, of the number that is farthest.
        evidence: chosen numbers of what the function gave, which `write_contract` writes into the model, too.
        undetermined: fields of the contract that other values would fit: no picture that was asked shows them.
        notes: what else a program should know, as that the function scales in floating point.
    """

    contract: ImageContract
    function: str
    pictures: Pictures
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
    pictures: Pictures | None = None,
    model: LearningModel | str | os.PathLike[str] | None = None,
    inputs: Iterable[str] = (),
    seed: int = 0,
) -> LearnedContract:
    """Finds the contract that a function keeps to, which turns a picture into a model's tensor.

    The function is called up to 400 times, with pictures that are made for it: of one colour (order, range, mean, std),
    ramps that carry coordinates (scaling, cropping, padding), texture (the kernel), and of the sizes in which two rules
    differ that are left. Then the contract is compared with it on 50 fresh pictures, and on some 50 that decide: below,
    at and above each limit, up to 4032x3024 and 9000x700 pixels, dark, bright and flat. What a contract cannot say is
    refused, with the reason. The function runs here, with all that it may do.

    Args:
        function: takes a picture, as its argument or as `image=` or `images=`. It gives an array, or something with
            `numpy()` or DLPack, of two to five dimensions; also in a dict, tuple or list. It is copied at once.
        pictures: what it takes: "pillow" for images of Pillow's, "path" for the path of a file, "rgb", "bgr" or "gray"
            for an array of uint8. None tries images of Pillow's, then paths. The order of an array has to be said: it
            cannot be seen in what comes out.
        model: a model, or its path: what the function gives must fit its input.
        inputs: the model's inputs that are pictures; by default those whose shape fits.
        seed: of the pictures.

    Raises:
        InvalidArgumentError: the function raises, gives no tensor of a picture, or one that does not fit the model.
        NotSupportedError: no contract says what it does: the message says why, which contract is closest, and how far
            it is.

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
    asked = AskedFunction(function, pictures)
    probe = texture((120, 160), np.random.default_rng(seed))
    first = asked(probe)
    for _ in range(3):
        _require_same(asked, first, asked(probe))
    numbers = measure_numbers(asked)
    areas = [measure_area(asked, size, numbers) for size in SIZES]
    colours = _colours(first, numbers, areas)
    if model is not None:
        colours = _fit_model(asked, model, set(inputs), colours, areas)
    rules = find_rules(areas)
    if not rules:
        _require_same(asked, first, asked(probe))
        raise NotSupportedError(
            f"{asked.name} places pictures by a rule that was not found: {_describe(areas)}.",
            hint="Scale and crop in the program, and learn what is left; or bind the function's tensor.",
        )
    candidates = choose(asked, colours, rules, numbers, seed + 1)
    candidate = candidates[0]
    proof = prove(asked, candidate, rules, numbers, seed + 2)
    evidence = ContractEvidence.take(
        lambda pixels: asked(pixels).numbers, asked.name, candidate.contract, seed, asked.pictures, LARGEST
    )
    _require_same(asked, first, asked(probe))  # also after all that it has seen
    notes = list(find_quirks(asked, seed + 3))
    if proof.tiny_differ is not None:
        height, width = proof.tiny_differ
        notes.append(f"it places tiny pictures otherwise: {width}x{height}, say")
    reason = "" if proof.is_close else explain(asked, candidate, numbers, proof)
    if not proof.holds:
        raise NotSupportedError(
            f"No contract was found that does what {asked.name} does{f': {reason}' if reason else ''}. Closest is "
            f"{candidate.contract.describe()}: {proof.mean:.2f} gray levels away on average, {proof.most:.0f} at most.",
            hint="Bind the tensor that the function makes.",
        )
    return LearnedContract(
        candidate.contract,
        asked.name,
        asked.pictures,
        asked.calls,
        proof.pictures,
        proof.mean,
        proof.most,
        evidence,
        tuple(find_undetermined(areas, candidates)),
        tuple(notes + [reason] * bool(reason)),
    )


def _require_same(asked: AskedFunction, first: Answer, again: Answer) -> None:
    if first.numbers.shape != again.numbers.shape or not np.array_equal(first.numbers, again.numbers):
        raise NotSupportedError(
            f"{asked.name} gives other numbers when it is asked again with the same picture: it has a random part, or "
            "keeps a state.",
            hint="Learn the function of the evaluation, not of the training.",
        )


def _fit_model(
    asked: AskedFunction,
    source: LearningModel | str | os.PathLike[str],
    names: set[str],
    colours: ImageContract,
    areas: Sequence[Area],
) -> ImageContract:
    """The colours in the layout that the model takes: programs transpose what such functions give.

    Raises:
        InvalidArgumentError: no input takes such tensors, or one takes other sizes: a bind would make other tensors
            than the function.
    """
    model = source if isinstance(source, LearningModel) else LearningModel.load(source)
    tensor = tensor_of(areas)
    other = TensorLayout.NHWC if colours.layout is TensorLayout.NCHW else TensorLayout.NCHW
    turned = replace(colours, layout=other)
    features = [each for each in model.input_features if isinstance(each, ShapedDescriptor)]
    named = [each for each in features if not names or each.name in names]
    if named and not any(each.fits(colours) for each in named) and any(each.fits(turned) for each in named):
        colours = turned
    for feature in fitting_inputs(model.input_features, colours, names):
        sides = _sides_of(feature, colours)
        if any(wanted not in (-1, given) for wanted, given in zip(sides, tensor, strict=True)):
            given = "x".join(str(side or "any") for side in tensor)
            raise InvalidArgumentError(
                f"{asked.name} gives tensors of {given} (height x width), and {feature.name} takes "
                f"{sides[0]}x{sides[1]}.",
                hint="Learn the function with the settings that this model was trained with.",
            )
    return colours


def _sides_of(feature: ShapedDescriptor, contract: ImageContract) -> tuple[int, int]:
    _, height, width = contract.axes()
    return feature.shape[height], feature.shape[width]


def _describe(areas: Sequence[Area]) -> str:
    """Some pictures, and what becomes of them."""
    return "; ".join(
        f"{area.picture[1]}x{area.picture[0]} becomes {area.target.width}x{area.target.height} in a tensor of "
        f"{area.tensor[1]}x{area.tensor[0]}"
        for area in (*areas[:2], *areas[-2:])
    )


# Colours.


def _colours(answer: Answer, numbers: Numbers, areas: Sequence[Area]) -> ImageContract:
    """What a contract says of colours: order, range, mean, std and padding; and the size."""
    order = BitmapPixelFormat.GRAY8
    if numbers.order:
        order = BitmapPixelFormat.RGB8 if numbers.order == (0, 1, 2) else BitmapPixelFormat.BGR8
    pixel_range, mean, std = _range_of(numbers)
    height, width = tensor_of(areas)
    size = (height, width) if height and width else None
    gray = ImageGray.LUMA if numbers.is_luma else ImageGray.WINDOWS
    return ImageContract(order, pixel_range, mean, std, answer.layout, pad=_pad(numbers, areas), size=size, gray=gray)


def _range_of(numbers: Numbers) -> tuple[LearningModelPixelRange, tuple[float, ...], tuple[float, ...]]:
    """Range, mean and std: they cannot be told apart, so this is the one form that is written."""
    for pixel_range, (factor, summand) in _RANGES.items():
        if np.allclose(numbers.factors, factor, rtol=1e-5) and np.allclose(numbers.summands, summand, atol=2e-6):
            return pixel_range, (), ()
    std = 1 / (255 * numbers.factors)
    mean = -numbers.summands * std
    return LearningModelPixelRange.ZERO_TO_ONE, tuple(map(_shorten, mean)), tuple(map(_shorten, std))


def _shorten(value: float) -> float:
    """The shortest decimal number that float32 does not tell from the value: it is what somebody wrote."""
    for digits in range(1, 9):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= 2e-7 * max(abs(value), 0.1):
            return short
    return float(value)


def _pad(numbers: Numbers, areas: Sequence[Area]) -> tuple[int, int, int]:
    """Red, green and blue of the padding. A number between two levels is rounded: half a level away at most."""
    padding = next((area.padding for area in areas if area.padding is not None), None)
    if padding is None:
        return 0, 0, 0
    levels = np.rint((padding - numbers.summands) / numbers.factors)
    if levels.min() < 0 or levels.max() > 255:
        raise NotSupportedError(
            f"The padding is {padding.tolist()}, which no colour becomes.", hint="A contract pads with a colour."
        )
    if not numbers.order:
        return int(levels[0]), int(levels[0]), int(levels[0])
    red, green, blue = (int(levels[numbers.order.index(colour)]) for colour in range(3))
    return red, green, blue


# What a function does with the files that people have: turned by EXIF, gray, partly transparent.
#
# A bind turns a picture as its EXIF data say, takes gray for three equal colours, and never looks at transparency. No
# contract changes that, so where the function does something else, a note says so.


_TURNED_SIZE = (90, 120)
"""Height and width: not square, so that a picture that lies on its side shows."""

_CLOSE = 0.1
"""The share of what two different pictures are apart: below it, two answers are of the same picture."""


def find_quirks(asked: AskedFunction, seed: int) -> Iterator[str]:
    """Where the function treats files otherwise than a bind, in words.

    Args:
        asked: the function; one that takes arrays sees no files.
        seed: of the pictures.
    """
    if asked.pictures not in ("pillow", "path"):
        return
    pixels = texture(_TURNED_SIZE, np.random.default_rng(seed), 0, 255)
    plain = Image.fromarray(pixels)
    upright = _ask(asked, plain)
    turned = _ask(asked, plain.transpose(Image.Transpose.ROTATE_270))
    if _nearest(_ask(asked, _with_orientation(plain)), turned, upright) == 1:
        yield "it leaves pictures on their side that EXIF data turn, and a bind turns them"
    gray = plain.convert("L")
    if not _is_same(_ask(asked, gray), _ask(asked, gray.convert("RGB")), upright):
        yield "it raises for gray pictures, or makes other numbers of them than of three equal colours, as a bind does"
    alpha = Image.fromarray(texture(_TURNED_SIZE, np.random.default_rng(seed + 1), 0, 255)[..., 0])
    see_through = plain.copy()
    see_through.putalpha(alpha)
    if not _is_same(_ask(asked, see_through), upright, turned):
        ways = [("over black", (0, 0, 0)), ("over white", (255, 255, 255))]
        laid = [_ask(asked, Image.composite(plain, Image.new("RGB", plain.size, colour), alpha)) for _, colour in ways]
        given = _ask(asked, see_through)
        nearest = None if given is None else _nearest(given, *laid, upright)
        words = "refuses pictures with transparency" if given is None else "does something with transparency"
        if nearest in (0, 1):
            words = f"lays transparent pictures {ways[nearest][0]}"
        yield f"it {words}, and a bind takes their colours as they are"


def _with_orientation(image: Image.Image) -> Image.Image:
    """The picture as a camera writes it that was held upright: a file whose EXIF data turn it clockwise."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    return Image.open(file)


def _ask(asked: AskedFunction, image: Image.Image) -> Array | None:
    """The tensor of an image; None where the function raises."""
    answer = asked.ask_image(image)
    return None if answer is None else answer.numbers


def _apart(one: Array | None, other: Array | None) -> float:
    if one is None or other is None or one.shape != other.shape:
        return np.inf
    return float(np.abs(one - other).mean())


def _is_same(one: Array | None, other: Array | None, different: Array | None) -> bool:
    """Whether two answers are of one picture, for an answer that is of another one."""
    scale = _apart(other, different)
    if np.isinf(scale):  # of another size: how far apart the numbers of one picture are tells as much
        scale = 0.0 if other is None else float(np.abs(other - other.mean()).mean())
    return _apart(one, other) <= _CLOSE * scale


def _nearest(given: Array | None, *others: Array | None) -> int | None:
    """Which of several answers is closest; None where none has its size."""
    distances = [_apart(given, other) for other in others]
    return None if np.isinf(min(distances)) else int(np.argmin(distances))
