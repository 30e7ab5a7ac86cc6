"""`ImageContract.windowsml` against a slow reference, and against tensors that Windows ML's Runtime itself made."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import reference
from helpers.built_in_contracts import Case, Compared
from helpers.cli import call
from helpers.models import unary
from tools import windows_ml
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    ImageGray,
    ImageKernel,
    ImageRounding,
    InvalidArgumentError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    TensorLayout,
)
from winml_py.scaling import CropToAspect, Fit, Stretch

Array = np.ndarray[Any, Any]
RGB8, BGR8, GRAY8, RGBA8, BGRA8 = (BitmapPixelFormat[name] for name in ("RGB8", "BGR8", "GRAY8", "RGBA8", "BGRA8"))
MODES = ("stretch", "center_crop", "letterbox")
SCALE, MEAN = (0.0173, 0.013, 0.021), (123.3, 110.7, 100.1)
SIZES = [
    ((7, 5), (4, 9)),
    ((1, 1), (3, 2)),
    ((9, 14), (1, 1)),
    ((2, 4), (5, 5)),  # the letterbox is 2.5 pixels high: 3
    ((30, 11), (8, 8)),
    ((5, 5), (1, 6)),
    ((3, 5), (2, 7)),
    ((61, 47), (33, 80)),
]


def noise(height: int, width: int, channels: int = 3) -> Array:
    return np.random.default_rng(height * 100 + width).integers(0, 256, (height, width, channels), np.uint8)


def place(pixels: Array, size: tuple[int, int], mode: str, pad: tuple[int, ...]) -> Array:
    """The scaled picture, by the rules in exact fractions."""
    (tall, wide), (height, width) = pixels.shape[:2], size
    if mode == "letterbox":
        ratio = min(Fraction(height, tall), Fraction(width, wide))
        high, across = (max(1, math.floor(side * ratio + Fraction(1, 2))) for side in (tall, wide))
        result = np.full((height, width, 3), pad, np.uint8)
        top, left = (height - high) // 2, (width - across) // 2
        result[top : top + high, left : left + across] = reference.scale_aligned(pixels, across, high)
        return result
    if mode == "center_crop":
        ratio = Fraction(width, height)
        high = tall if wide > tall * ratio else max(1, math.floor(wide / ratio))
        across = max(1, math.floor(tall * ratio)) if wide > tall * ratio else wide
        top, left = (tall - high) // 2, (wide - across) // 2
        pixels = pixels[top : top + high, left : left + across]
    return reference.scale_aligned(pixels, width, height)


def bound(contract: ImageContract, pixels: Array, pixel_format: BitmapPixelFormat, size: tuple[int, int]) -> Array:
    shape = [1, contract.channels, *size] if contract.layout is TensorLayout.NCHW else [1, *size, contract.channels]
    session = LearningModelSession(LearningModel.load(unary(shape=shape)))
    binding = LearningModelBinding(session)
    binding.bind("x", ImageFeatureValue.from_array(pixels, pixel_format), {"ImageContract": contract})
    return np.array(session.evaluate(binding).outputs["y"].to_numpy())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("picture", "size"), SIZES)
def test_tensors_are_those_of_the_formula(picture: tuple[int, int], size: tuple[int, int], mode: str) -> None:
    pixels, f = noise(*picture), np.float32
    contract = ImageContract.windowsml(size, mode, scale=SCALE, mean=MEAN, pad=(10, 20, 30))
    levels = place(pixels, size, mode, (10, 20, 30))
    numbers = ((levels.astype(f) - np.array(MEAN, f)) * np.array(SCALE, f))[None]
    np.testing.assert_array_equal(bound(contract, pixels, RGB8, size), numbers.transpose(0, 3, 1, 2))
    last = replace(contract.with_pixel_format(BGR8), layout=TensorLayout.NHWC)
    np.testing.assert_array_equal(bound(last, pixels, RGB8, size), numbers[..., ::-1])


@pytest.mark.parametrize(
    ("picture", "size"),
    [
        ((640, 700), (1800, 2000)),  # in several strips
        ((2, 32766), (3, 5)),  # the longest side that OpenCV gathers from
        ((2, 32767), (3, 5)),
        ((40000, 3), (5, 2)),
        ((3, 2), (2, 32767)),
        ((3, 2), (9000, 1)),
        ((200, 300), (17001, 1)),
    ],
)
@pytest.mark.parametrize("channels", [3, 4])
def test_large_sizes(picture: tuple[int, int], size: tuple[int, int], channels: int) -> None:
    pixels = noise(*picture, channels)
    expected = reference.scale_aligned(pixels[..., :3], size[1], size[0])
    actual = bound(ImageContract.windowsml(size), pixels, RGB8 if channels == 3 else RGBA8, size)
    np.testing.assert_array_equal(actual[0].transpose(1, 2, 0), expected)


def test_random_sizes_in_one_binding() -> None:
    """Pictures with and without alpha, in colour and in gray, take turns in the memory of one binding."""
    random = np.random.default_rng(0)
    session = LearningModelSession(LearningModel.load(unary(shape=[1, 3, "h", "w"])))
    binding = LearningModelBinding(session)
    for source in [RGB8, RGBA8, BGRA8, GRAY8] * 30:
        size = 11, 13
        if source is RGB8:
            picture = tuple(int(300 ** random.random()) for _ in range(2))
            size = tuple(int(200 ** random.random()) for _ in range(2))
        pixels = noise(*picture, {RGB8: 3, GRAY8: 1}.get(source, 4))
        colours = pixels[..., 2::-1] if source is BGRA8 else pixels[..., :3]
        image = ImageFeatureValue.from_array(pixels[..., 0] if source is GRAY8 else pixels, source)
        binding.bind("x", image, {"ImageContract": ImageContract.windowsml(size)})
        actual = session.evaluate(binding).outputs["y"].to_numpy()[0].transpose(1, 2, 0)
        expected = reference.scale_aligned(colours, size[1], size[0])
        np.testing.assert_array_equal(actual, np.broadcast_to(expected, actual.shape))


@pytest.mark.parametrize("rows", [slice(None, None, -1), slice(3, 30, 2), slice(None)])
@pytest.mark.parametrize("columns", [slice(None, None, -1), slice(5, 40, 3), slice(None)])
@pytest.mark.parametrize("source", [RGB8, RGBA8])
def test_views_of_other_arrays(rows: slice, columns: slice, source: BitmapPixelFormat) -> None:
    """Flipped pictures, parts and every second pixel are scaled as their copies."""
    view = noise(40, 50, 3 if source is RGB8 else 4)[rows, columns]
    contract = ImageContract.windowsml()
    tensors = [bound(contract, pixels, source, (9, 11)) for pixels in (view, view.copy())]
    np.testing.assert_array_equal(*tensors)


def test_rows_at_odd_addresses() -> None:
    """Rows whose distance is not a whole number of pixels."""
    rows = np.random.default_rng(3).integers(0, 256, (40, 203), np.uint8)
    view = np.ndarray((40, 50, 4), np.uint8, rows, offset=1, strides=(203, 4, 1))
    contract = ImageContract.windowsml()
    tensors = [bound(contract, pixels, RGBA8, (9, 11)) for pixels in (view, view.copy())]
    np.testing.assert_array_equal(*tensors)


@pytest.mark.parametrize("mode", MODES)
def test_gray_is_mixed_before_scaling(mode: str) -> None:
    pixels = noise(40, 50, 4)
    # Colours whose gray is half a level: they are rounded as float64 has them.
    ties = [(r, g, b) for r in range(0, 256, 3) for g in range(256) for b in (100, 250, 255)]
    ties = [(r, g, b) for r, g, b in ties if (299 * r + 587 * g + 114 * b) % 1000 == 500]
    assert len(ties) > 40
    for index, (red, green, blue) in enumerate(ties[:2000]):
        pixels[index // 50, index % 50, :3] = blue, green, red
    levels = [[round(0.299 * int(r) + 0.587 * int(g) + 0.114 * int(b)) for b, g, r, _ in row] for row in pixels]
    gray = np.array(levels, np.uint8)
    expected = place(np.repeat(gray[..., None], 3, 2), (40, 60), mode, (99, 99, 99))[..., 0]
    contract = ImageContract.windowsml((40, 60), mode, GRAY8, pad=(99, 99, 99))
    for colours, order in ((pixels, BGRA8), (np.ascontiguousarray(pixels[..., 2::-1]), RGB8), (gray, GRAY8)):
        np.testing.assert_array_equal(bound(contract, colours, order, (40, 60))[0, 0], expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", [RGB8, BGRA8, GRAY8])
@pytest.mark.parametrize("order", [RGB8, GRAY8])
def test_a_built_in_contract_gives_the_same(
    mode: str, source: BitmapPixelFormat, order: BitmapPixelFormat, tmp_path: Path
) -> None:
    contract = ImageContract.windowsml(None, mode, order, scale=0.0173, mean=123.3, pad=(7, 7, 7))
    compared = Compared(Case(contract, (24, 31), source), tmp_path)
    for picture in ((1, 1), (2, 90), (90, 2), (24, 31), (61, 47), (300, 200)):
        channels = {RGB8: 3, BGRA8: 4, GRAY8: 1}[source]
        built, wanted = compared.tensors(noise(*picture, channels))
        np.testing.assert_array_equal(built, wanted)


def test_what_windows_ml_itself_made() -> None:
    """Digests of its tensors, which `tests/tools/windows_ml.py --write` wrote on Windows ML's side."""
    written = json.loads((Path(__file__).parent / "windows_ml_tensors.json").read_text())
    assert len(written) == 300
    ours = windows_ml.Ours()
    wrong = [
        index
        for index, digest in enumerate(written)
        if windows_ml.digest(ours.convert(windows_ml.make_case(index))) != digest
    ]
    assert wrong == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [BGR8, GRAY8])
def test_the_metadata_says_all_of_it(mode: str, order: BitmapPixelFormat, tmp_path: Path) -> None:
    contract = ImageContract.windowsml((20, 30), mode, order, scale=1 / 255, mean=1, pad=(1, 2, 3))
    assert ImageContract.from_metadata(contract.to_metadata()) == contract
    scalings = (Stretch(), CropToAspect(ImageRounding.DOWN), Fit(rounding=ImageRounding.HALF_UP))
    assert contract.scaling == dict(zip(MODES, scalings, strict=True))[mode]
    model, made = tmp_path / "model.onnx", tmp_path / "made.onnx"
    model.write_bytes(unary(shape=(1, 3, "h", "w")))
    done = call(
        "contract", model, "--from", "windowsml", "--set", "size=20,30", "--set", "factor=0.5", "--output", made
    )
    assert done.exit_code == 0, done.output
    [feature] = LearningModel.load(made).input_features
    assert feature.contract == ImageContract.windowsml((20, 30), scale=0.5)


def test_an_output_becomes_the_picture_again() -> None:
    contract = ImageContract.windowsml((20, 30), scale=SCALE, mean=MEAN)
    pixels = noise(20, 30)
    metadata = replace(contract, size=None).to_metadata()
    model = LearningModel.load(unary(shape=(1, 3, 20, 30), denotation="IMAGE", metadata=metadata))
    with LearningModelSession(model) as session:
        answer = session.evaluate_features({"x": ImageFeatureValue.from_array(pixels, RGB8)}).outputs["y"]
        np.testing.assert_array_equal(answer.to_numpy()[..., :3], pixels)


def test_what_it_refuses() -> None:
    with pytest.raises(InvalidArgumentError, match="Expected the mode stretch or center_crop or letterbox, got 'crop'"):
        ImageContract.windowsml(mode="crop")
    with pytest.raises(InvalidArgumentError, match="NV12"):
        ImageContract.windowsml(pixel_format=BitmapPixelFormat.NV12)
    with pytest.raises(InvalidArgumentError, match="a std and a factor"):
        ImageContract(std=(0.5,), factor=(2,))
    with pytest.raises(InvalidArgumentError, match="factor must not be 0"):
        ImageContract(factor=(0,))
    with pytest.raises(InvalidArgumentError, match="for each colour channel"):
        ImageContract(RGB8, factor=(1, 2, 3)).with_pixel_format(GRAY8)
    assert ImageContract(RGB8, factor=(1, 2, 3)).with_pixel_format(BGR8).factor == (3, 2, 1)
    assert ImageContract.windowsml(pixel_format=GRAY8).gray is ImageGray.EXACT_LUMA
    assert ImageContract.windowsml().kernel is ImageKernel.ALIGN_CORNERS_LINEAR
