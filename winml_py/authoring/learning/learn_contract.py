"""Learning an image contract from a model's training code: call it with pictures, solve, and check the result."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import PIL.Image

from ...core.base.arguments import require_type, require_whole_number
from ...core.base.arrays import Pixels, Size
from ...core.features.descriptors import ShapedDescriptor
from ...core.imaging.contract import SCALE_AND_SHIFT, ImageContract
from ...core.model.contracts import find_fitting_inputs
from ...core.model.model import LearningModel
from ...enums import BitmapPixelFormat, ImageGray, LearningModelPixelRange, TensorLayout
from ...errors import NotSupportedError
from ..picture_function import PictureFunction, PictureKind, PictureTensor
from .candidates import ContractCandidate, choose_candidate
from .measure_function import Area, measure_area, measure_colours
from .placement_rules import Rule, find_rules, find_tensor_sides
from .probe_images import (
    SIZES,
    ColourMapping,
    make_common_pictures,
    make_contents,
    make_decisive_pictures,
    make_fresh_pictures,
    make_texture,
)

PICTURES = 50
"""How many pictures of random sizes a contract is checked on, besides those that reveal a limit or a special case."""

SIDES = 4
"""How many sides of the rules are tried as limits."""

MAX_MEAN, MAX_DIFFERENCE = 0.3, 3.0
"""Gray levels: the largest effect of another way of rounding. A larger difference means another function."""

TINY = 64
"""Pixels: text detectors place smaller pictures by a special rule, and such pictures are rare."""


@dataclass(frozen=True)
class LearnedContract:
    """The result of `learn_contract`, and its differences from the function.

    Attributes:
        contract: the function's contract. Mean and std are given, for 0 to 1, if it has none of the three ranges.
        function: its full name.
        pictures: its argument: "pillow", "path", "rgb", "bgr" or "gray".
        calls: how often it was called.
        checked_on: the number of fresh pictures in the comparison.
        mean_difference: gray levels between the function's tensor and that of a bind, over all pictures.
        largest_difference: the same, for a single number.
        notes: where the function differs after all: in tiny pictures.
    """

    contract: ImageContract
    function: str
    pictures: PictureKind
    calls: int
    checked_on: int
    mean_difference: float
    largest_difference: float
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

    The function is called some 350 times, with generated pictures: single colours (order, range, mean, std), ramps
    that carry coordinates (scaling, cropping, padding), texture (the kernel), and sizes in which two remaining rules
    differ. Then the contract is compared with it on about 250 others: below, at and above each limit, in the usual
    sizes of cameras and screens, up to 4032x3024 and 9000x700 pixels; dark, bright and flat; and a photograph in many
    states, with borders and without. Functions of files also get JPEG files. What a contract cannot express is refused,
    with what was measured. A rule that looks at what is in a picture, or that is for one size, can be missed if no
    test picture meets its condition. The function runs in this process, without restrictions.

    Args:
        function: takes a picture, as its argument or as `image=` or `images=`. It returns an array, or something with
            `numpy()` or DLPack, of two to five dimensions, alone or in a dict, tuple or list. It is copied at once.
        pictures: its argument: "pillow" for Pillow images, "path" for the path to a file, "rgb", "bgr" or "gray" for an
            array of uint8. None tries Pillow images, then paths. The channel order of an array must be stated: the
            result does not show it.
        model: a model, or its path: the function's tensor must fit its input.
        inputs: the model's inputs that are pictures; by default those whose shape fits.
        seed: the seed of the pictures.

    Raises:
        InvalidArgumentError: the function raises, returns no tensor of a picture, or one that does not fit the model.
        InvalidBindingError: the model takes tensors of another size.
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
    seed = require_whole_number(seed, "The seed")
    require_type(inputs, Iterable, 'Pass input names, for example ["image"].')
    prepare = PictureFunction(function, pictures)
    probe = make_texture((120, 160), np.random.default_rng(seed))
    first = prepare(probe)
    for _ in range(3):
        _require_same(prepare, first, prepare(probe))
    mapping = measure_colours(prepare)
    areas = [measure_area(prepare, size, mapping) for size in SIZES]
    colours = _make_colour_contract(first, mapping, areas)
    if model is not None:
        colours = _fit_model(model, {inputs} if isinstance(inputs, str) else set(inputs), colours)
    rules = find_rules(areas)
    if not rules:
        _require_same(prepare, first, prepare(probe))
        raise NotSupportedError(
            f"{prepare.name} positions pictures by an unknown rule: {_describe_areas(areas)}.",
            hint="Scale and crop pictures in your program and learn the rest, or bind the function's tensor.",
        )
    candidate = choose_candidate(prepare, colours, rules, mapping, seed + 1)
    differences, other_tiny_size = check_contract(prepare, candidate, rules, mapping, seed + 2)
    worst = max(differences, key=attrgetter("share"))
    _require_same(prepare, first, prepare(probe))  # even after all the other pictures
    if worst.share > 1:
        raise NotSupportedError(
            f"No contract matches {prepare.name}. The closest is {candidate.contract.describe()}: "
            f"{_describe_difference(worst)}.",
            hint="Bind the function's tensor.",
        )
    notes: tuple[str, ...] = ()
    if other_tiny_size is not None:
        height, width = other_tiny_size
        notes = (f"it places tiny pictures differently, for example {width}x{height}",)
    return LearnedContract(
        candidate.contract,
        prepare.name,
        prepare.pictures,
        prepare.calls,
        len(differences),
        float(np.mean([difference.mean for difference in differences])),
        max(difference.largest for difference in differences),
        notes,
    )


def _describe_difference(difference: PictureDifference) -> str:
    picture = f"for a {difference.size[1]}x{difference.size[0]} picture"
    if difference.mean == np.inf:
        return f"its tensor has a different size {picture}"
    return f"it differs by {difference.mean:.2f} gray levels on average, {difference.largest:.0f} at most, {picture}"


def _require_same(prepare: PictureFunction, first: PictureTensor, again: PictureTensor) -> None:
    if first.numbers.shape != again.numbers.shape or not np.array_equal(first.numbers, again.numbers):
        raise NotSupportedError(
            f"{prepare.name} returns different values for the same picture, so it is random or stateful.",
            hint="Pass the function that prepares pictures for evaluation instead of training.",
        )


def _fit_model(
    source: LearningModel | str | os.PathLike[str], names: set[str], colours: ImageContract
) -> ImageContract:
    """The colours in the layout that the model takes, because programs transpose such tensors."""
    model = source if isinstance(source, LearningModel) else LearningModel.load(source)
    features = [feature for feature in model.input_features if isinstance(feature, ShapedDescriptor)]
    named = [feature for feature in features if not names or feature.name in names]
    other_layout = TensorLayout.NHWC if colours.layout is TensorLayout.NCHW else TensorLayout.NCHW
    transposed = replace(colours, layout=other_layout)

    def has_fitting_input(contract: ImageContract) -> bool:
        return any(feature.fits(replace(contract, size=None)) for feature in named)

    if has_fitting_input(transposed) and not has_fitting_input(colours):
        colours = transposed
    find_fitting_inputs(model.input_features, colours, names)  # raises if it does not fit
    return colours


def _describe_areas(areas: Sequence[Area]) -> str:
    """Some pictures, and their sizes in the tensor."""
    return "; ".join(
        f"{area.picture[1]}x{area.picture[0]} becomes {area.target.width}x{area.target.height} in a "
        f"{area.tensor[1]}x{area.tensor[0]} tensor"
        for area in (*areas[:2], *areas[-2:])
    )


def _make_colour_contract(answer: PictureTensor, mapping: ColourMapping, areas: Sequence[Area]) -> ImageContract:
    """A contract's order, range, mean, std, padding and size."""
    order = BitmapPixelFormat.GRAY8
    if mapping.order:
        order = BitmapPixelFormat.RGB8 if mapping.order == (0, 1, 2) else BitmapPixelFormat.BGR8
    pixel_range, mean, std = _find_range(mapping)
    height, width = find_tensor_sides(areas)
    size = (height, width) if height and width else None
    gray = ImageGray.LUMA if mapping.is_luma else ImageGray.WINDOWS
    return ImageContract(
        order, pixel_range, mean, std, answer.layout, pad=_find_padding(mapping, areas), size=size, gray=gray
    )


def _find_range(mapping: ColourMapping) -> tuple[LearningModelPixelRange, tuple[float, ...], tuple[float, ...]]:
    """Range, mean and std: the numbers allow several forms, and this is the canonical one."""
    for pixel_range, (scale, shift) in SCALE_AND_SHIFT.items():
        if np.allclose(mapping.factors, 1 / scale, rtol=1e-5) and np.allclose(mapping.summands, -shift, atol=2e-6):
            return pixel_range, (), ()
    std = 1 / (255 * mapping.factors)
    mean = -mapping.summands * std
    return LearningModelPixelRange.ZERO_TO_ONE, tuple(map(_shorten, mean)), tuple(map(_shorten, std))


def _shorten(value: float) -> float:
    """The shortest decimal number with the same float32: the one that a person wrote."""
    for digits in range(1, 9):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= 2e-7 * max(abs(value), 0.1):
            return short
    return float(value)


def _find_padding(mapping: ColourMapping, areas: Sequence[Area]) -> tuple[int, int, int]:
    """The padding's RGB. A number between two levels is rounded, by at most half a level."""
    padding = next((area.padding for area in areas if area.padding is not None), None)
    if padding is None:
        return 0, 0, 0
    levels = np.rint((padding - mapping.summands) / mapping.factors)
    if levels.min() < 0 or levels.max() > 255:
        raise NotSupportedError(f"The padding {padding.tolist()} does not correspond to any colour.")
    if not mapping.order:
        return int(levels[0]), int(levels[0]), int(levels[0])
    red, green, blue = (int(levels[mapping.order.index(colour)]) for colour in range(3))
    return red, green, blue


# Comparing the contract with the function, on pictures that it was not learned from.


class PictureDifference(NamedTuple):
    """How far a contract is from the function for one picture.

    Attributes:
        size: height and width of the picture.
        mean: of all numbers, in gray levels; infinite if the tensor has another size.
        largest: of all numbers.
    """

    size: Size
    mean: float
    largest: float

    @property
    def share(self) -> float:
        """The share of what is allowed."""
        return max(self.mean / MAX_MEAN, self.largest / MAX_DIFFERENCE)


def check_contract(
    prepare: PictureFunction, candidate: ContractCandidate, rivals: Iterable[Rule], mapping: ColourMapping, seed: int
) -> tuple[list[PictureDifference], Size | None]:
    """Compares a contract with the function on other pictures: texture of many sizes, and a photograph in many states.

    Args:
        prepare: the function. If it takes files, every third picture is a JPEG.
        candidate: the contract.
        rivals: the rules that also fit the ramps: a side that one of them names may be the function's.
        mapping: how levels become numbers.
        seed: the seed of the pictures.

    Returns:
        The difference for each picture; and the size of a picture below `TINY` whose tensor has another size, which
        counts nowhere else, or None.
    """
    differences: list[PictureDifference] = []
    other_tiny_size = None
    longest = max(*candidate.rule.place((300, 400)).scaled, *candidate.rule.sides)
    sides = _select_distinct_sides(itertools.chain([candidate.rule], rivals))
    pictures = itertools.chain(
        make_fresh_pictures(PICTURES, seed, longest),
        make_contents(seed + 2),
        make_decisive_pictures(sides, candidate.rule.sides, seed + 1),
        make_common_pictures(seed + 3),
    )
    for count, pixels in enumerate(pictures):
        if count >= PICTURES and any(difference.share > 1 for difference in differences):
            break  # the contract is refused, and the large pictures take longest
        size = (pixels.shape[0], pixels.shape[1])
        jpeg = _encode_jpeg(pixels) if prepare.takes_files and count % 3 == 2 else b""
        if jpeg:
            pixels = np.asarray(PIL.Image.open(io.BytesIO(jpeg)))
        levels = candidate.compute_differences(pixels, prepare(pixels, jpeg), mapping)
        if levels is None and max(size) < TINY:
            other_tiny_size = size
        elif levels is None:
            differences.append(PictureDifference(size, np.inf, np.inf))
        else:
            differences.append(PictureDifference(size, float(levels.mean()), float(levels.max())))
    return differences, other_tiny_size


def _encode_jpeg(pixels: Pixels) -> bytes:
    """A JPEG with all colours of all pixels: decoders differ in how they make up others."""
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "jpeg", quality=95, subsampling=0)
    return file.getvalue()


def _select_distinct_sides(rules: Iterable[Rule]) -> list[int]:
    """The sides of the rules, without nearly equal ones."""
    distinct: list[int] = []
    for side in (side for rule in rules for side in sorted(rule.sides)):
        if len(distinct) < SIDES and all(abs(side - known) > 0.02 * known for known in distinct):
            distinct.append(side)
    return distinct
