"""Contracts that are learned from functions: what is found, what is refused, and how far from the function it is."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from helpers import preparations
from helpers.cli import call
from helpers.models import unary
from helpers.preparations import slow
from winml_py import (
    BitmapPixelFormat,
    ImageAnchor,
    ImageContract,
    ImageFeatureValue,
    ImageGray,
    ImageKernel,
    ImageRounding,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    NotSupportedError,
    TensorLayout,
)
from winml_py.authoring import LearnedContract, learn_contract
from winml_py.scaling import CropToAspect, Ends, Fit, Keep, LongestSide, Multiple, ShortestSide, Stretch

pytestmark = pytest.mark.exhaustive

RGB8, BGR8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8
ONE = LearningModelPixelRange.ZERO_TO_ONE
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TO_32 = Multiple(32, ImageRounding.HALF_EVEN)
AntialiasedLinear = ImageKernel.ANTIALIASED_LINEAR


LEARNED: dict[str, tuple[Callable[..., Any], Any, ImageContract]] = {
    "stretched": (
        preparations.stretched,
        None,
        ImageContract(
            RGB8, LearningModelPixelRange.MINUS_ONE_TO_ONE,
            scaling=Stretch(), kernel=AntialiasedLinear, size=(224, 224),
        ),
    ),
    "imagenet": (
        preparations.imagenet,
        None,
        ImageContract(
            RGB8, ONE, MEAN, STD, kernel=AntialiasedLinear, size=(224, 224),
            scaling=ShortestSide(256, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN)),
        ),
    ),
    "letterboxed": (
        preparations.letterboxed,
        "bgr",
        ImageContract(
            RGB8, ONE, scaling=Fit(), kernel=ImageKernel.LINEAR, pad=(114, 114, 114),
            size=(320, 320),
        ),
    ),
    "text line": (
        preparations.text_line,
        "bgr",
        ImageContract(
            BGR8, LearningModelPixelRange.MINUS_ONE_TO_ONE, kernel=ImageKernel.LINEAR,
            scaling=Keep(rounding=ImageRounding.UP),
        ),
    ),
    "tagger": (
        preparations.tagger,
        "pillow",
        ImageContract(
            BGR8, layout=TensorLayout.NHWC, kernel=ImageKernel.ANTIALIASED_LANCZOS, size=(128, 128)
        ),
    ),
    "luma": (
        preparations.luma,
        None,
        ImageContract(
            BitmapPixelFormat.GRAY8, ONE, scaling=Stretch(), size=(28, 28), gray=ImageGray.LUMA
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEARNED)
def test_what_training_code_does(name: str) -> None:
    function, pictures, expected = LEARNED[name]
    learned = learn_contract(function, pictures=pictures)
    assert learned.contract == expected
    assert learned.mean_difference <= 0.3
    assert round(learned.largest_difference) <= 2
    assert learned.calls <= 400
    assert learned.checked_on >= 220
    assert learned.function == f"helpers.preparations.{function.__name__}"


@pytest.mark.parametrize("mode", ["stretch", "center_crop", "letterbox"])
def test_windows_mls_runtime_is_learned(mode: str) -> None:
    learned = learn_contract(partial(preparations.windows_ml, mode=mode))
    expected = ImageContract.windowsml((48, 64), mode)
    as_std = {"pixel_range": LearningModelPixelRange.MINUS_ONE_TO_ONE, "pad": learned.contract.pad}
    assert learned.contract == replace(expected, **as_std)  # type: ignore[arg-type]
    assert learned.largest_difference < 0.01


def test_the_learned_contract_binds_what_the_function_gives() -> None:
    """Through a session, on pictures that learning never saw. Two rules may fit; what they make is what counts."""
    learned = learn_contract(preparations.text_detector, pictures="bgr")
    scaling = learned.contract.scaling
    assert isinstance(scaling, LongestSide)
    assert not scaling.enlarges
    session = LearningModelSession(LearningModel.load(unary(shape=("n", 3, "h", "w"))))
    rng = np.random.default_rng(5)
    for width, height in ((640, 427), (53, 300), (1900, 1111), (20, 30)):
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        binding = LearningModelBinding(session)
        image = ImageFeatureValue.from_array(pixels, BGR8)
        binding.bind("x", image, {"ImageContract": learned.contract})
        came = session.evaluate(binding).outputs["y"].to_numpy()
        expected = preparations.text_detector(pixels)
        assert came.shape == expected.shape
        np.testing.assert_allclose(came, expected, atol=1e-5)


def test_a_function_that_scales_floats_is_learned_to_a_level() -> None:
    learned = learn_contract(preparations.floats, pictures="rgb")
    assert learned.contract.kernel is ImageKernel.LINEAR
    assert 0.15 < learned.mean_difference < 0.3
    assert learned.largest_difference < 1


@pytest.mark.parametrize("to_multiple", [math.floor, math.ceil, round])
def test_multiples_without_a_limit_are_learned_without_one(to_multiple: Callable[[float], int]) -> None:
    learned = learn_contract(partial(preparations.to_32, to_multiple=to_multiple), pictures="rgb")
    scaling = learned.contract.scaling
    assert isinstance(scaling, Keep)
    assert scaling.multiple.of == 32
    for picture in ((3024, 4032), (700, 9000), (1000, 1333)):
        assert scaling.compute_size(picture[1], picture[0]) == tuple(32 * to_multiple(side / 32) for side in picture)


@pytest.mark.parametrize(
    "name", ["at_least", "large_by_a_factor", "large_blurred", "large_by_nearest", "dark_corrected"]
)
def test_what_shows_only_in_large_thin_or_dark_pictures_is_refused(name: str) -> None:
    with pytest.raises(NotSupportedError, match=r"No contract matches .* The closest is .* for a \d+x\d+ picture\."):
        learn_contract(getattr(preparations, name), pictures="rgb")


@pytest.mark.parametrize(
    ("name", "pictures"),
    [
        ("trimmed", "pillow"),
        ("full_hd_sharpened", "pillow"),
        ("smoothed_if_blurred", "rgb"),
        ("read_reduced", "path"),
        ("read_as_draft", "path"),
        ("halved_between", "rgb"),
    ],
)
def test_what_shows_only_with_borders_in_photographs_common_sizes_or_files_is_refused(name: str, pictures: Any) -> None:
    with pytest.raises(NotSupportedError, match=r"No contract matches .* The closest is .* for a \d+x\d+ picture\."):
        learn_contract(getattr(preparations, name), pictures=pictures)


def test_the_standard_resize_of_a_detector_framework_is_learned() -> None:
    learned = learn_contract(preparations.detector, pictures="pillow")
    scaling = learned.contract.scaling
    assert scaling.ends.pad_multiple == 32
    sizes = [(189, 602), (243, 486), *np.random.default_rng(3).integers(100, 1500, (500, 2)).tolist()]
    other = [size for size in sizes if scaling.compute_size(size[1], size[0]) != preparations.detector_size(*size)]
    assert len(other) <= 2  # a product that is just below a half; the rule that limits the rounded side has some 15


def test_a_product_just_below_a_whole_number_is_cut_off_as_the_function_does() -> None:
    def prepare(rgb: np.ndarray) -> np.ndarray:
        scale = min(1.0, 960 / max(rgb.shape))
        wide, high = (int(side * scale) for side in rgb.shape[1::-1])
        whole = np.zeros((960, 960, 3), np.uint8)
        whole[:high, :wide] = cv2.resize(rgb, (wide, high))
        return whole.transpose(2, 0, 1)

    scaling = learn_contract(prepare, pictures="rgb").contract.scaling
    assert scaling.compute_size(1074, 1074) == (959, 959)  # 1074 * (960 / 1074) is 959.9999999999999
    assert scaling.compute_size(1047, 1000) == (916, 960)


@pytest.mark.parametrize("is_longest", [True, False])
def test_half_a_pixel_is_rounded_as_the_function_rounds_it(is_longest: bool) -> None:
    """Sizes that are a whole number and a half: `int(x + 0.5)` rounds them up, and `round` to even."""

    def up(image: Image.Image) -> np.ndarray:
        scale = 128 / (max if is_longest else min)(image.size)
        width, height = (int(side * scale + 0.5) for side in image.size)
        pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        whole = np.zeros((128, 128, 3), np.uint8)
        top, left = max(0, (height - 128) // 2), max(0, (width - 128) // 2)
        part = pixels[top : top + 128, left : left + 128]
        whole[: part.shape[0], : part.shape[1]] = part
        return whole.transpose(2, 0, 1)

    learned = learn_contract(up)
    scaling = learned.contract.scaling
    assert isinstance(scaling, LongestSide if is_longest else ShortestSide)
    assert scaling.rounding is ImageRounding.HALF_UP


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scaled_twice", "gray levels on average"),
        ("gamma", "to values linearly"),
        ("own_mean", "subtracts a value that depends on the picture"),
        ("own_maximum", "to values linearly"),
        ("int_scaled", r"at most, for a \d+x\d+ picture"),
        ("whole_into", r"at most, for a \d+x\d+ picture"),
        ("by_a_factor", r"at most, for a \d+x\d+ picture"),
        ("padded_between", "gray levels on average"),
        ("padded_first", "pads before scaling"),
        ("equalised", "corrects each picture's contrast"),
        ("turned", "mirrors or rotates the picture"),
        ("bright_sized", r"its tensor has a different size for a \d+x\d+ picture"),
        ("vignette", "different values for the same colour in different places"),
        ("random_crop", "it is random or stateful"),
        ("tiles", "passed one picture"),
        ("gray_as_colour", "mixes the colours"),
    ],
)
def test_what_no_contract_says_is_refused_by_name(name: str, words: str) -> None:
    with pytest.raises(NotSupportedError, match=words):
        learn_contract(getattr(preparations, name))


def test_two_kernels_and_a_state_between_calls_are_refused() -> None:
    with pytest.raises(NotSupportedError, match="No contract matches"):
        learn_contract(preparations.two_kernels, pictures="rgb")
    with pytest.raises(NotSupportedError, match="stateful"):
        learn_contract(preparations.Counting().prepare)


@pytest.mark.parametrize(
    ("function", "pictures", "words"),
    [
        (7, None, "Expected a function, got 7"),
        (preparations.stretched, "cmyk", "Invalid value for pictures: 'cmyk'"),
        (preparations.letterboxed, None, "Specify its argument. For an array, pass pictures='rgb' or 'bgr'"),
        (lambda image: "text", None, "contains no picture tensor"),
        (lambda image: np.zeros((1, 7, 9, 9)), None, "neither 1 nor 3 channels"),
    ],
)
def test_what_is_no_such_function(function: Any, pictures: Any, words: str) -> None:
    with pytest.raises((InvalidArgumentError, NotSupportedError), match=words):
        learn_contract(function, pictures=pictures)


def test_how_a_function_may_be_called_and_answer() -> None:
    buffer = np.empty((1, 3, 224, 224), np.float32)

    class Tensor:
        def detach(self) -> Tensor:
            return self

        def numpy(self) -> Any:
            return buffer  # used again in each call

    def prepare(*, image: str) -> tuple[int, Tensor]:  # by name alone, as Albumentations takes it
        assert Path(image).is_file()
        buffer[:] = preparations.stretched(Image.open(image))
        return 1, Tensor()

    learned = learn_contract(prepare)
    assert learned.pictures == "path"
    assert learned.contract == LEARNED["stretched"][2]


class TestAModel:
    def test_another_layout_is_the_models(self) -> None:
        model = LearningModel.load(unary(shape=(1, 3, 128, 128)))
        assert learn_contract(preparations.tagger, model=model).contract.layout is TensorLayout.NCHW

    def test_another_size_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        path.write_bytes(unary(shape=(1, 3, 256, 256)))
        with pytest.raises(InvalidBindingError, match="specifies 224"):
            learn_contract(preparations.stretched, model=path)


@st.composite
def contracts(draw: st.DrawFn) -> tuple[ImageContract, tuple[int | None, int | None]]:
    """Contracts, and height and width of the tensor."""
    side = draw(st.sampled_from([96, 160, 224]))
    other = draw(st.sampled_from([side, 128, 200]))
    ends = Ends(draw(st.sampled_from([ImageRounding.DOWN, ImageRounding.HALF_EVEN])))
    rounding = draw(st.sampled_from(list(ImageRounding)))
    anchor = draw(st.sampled_from(list(ImageAnchor)))
    ways: list[dict[str, Any]] = [
        {"scaling": draw(st.sampled_from([CropToAspect(), Stretch(), Fit()])), "sides": (side, other)},
        {"scaling": ShortestSide(side + 32, rounding=rounding, ends=ends), "sides": (side, side)},
        {"scaling": LongestSide(side, rounding=rounding, ends=Ends(anchor=anchor)), "sides": (side, side)},
        {"scaling": ShortestSide(side, limit=300), "sides": (None, None)},
        {"scaling": LongestSide(320, enlarges=False, multiple=TO_32), "sides": (None, None)},
        {"scaling": LongestSide(side, ends=Ends(anchor=anchor, pad_multiple=32)), "sides": (None, None)},
    ]
    way = draw(st.sampled_from(ways))
    sides = way.pop("sides")
    has_mean = draw(st.booleans())
    numbers = st.floats(0.1, 0.9).map(lambda number: round(number, 3))
    contract = ImageContract(
        draw(st.sampled_from([RGB8, BGR8])),
        ONE if has_mean else draw(st.sampled_from(list(LearningModelPixelRange))),
        draw(st.tuples(numbers, numbers, numbers)) if has_mean else (),
        draw(st.tuples(numbers, numbers, numbers)) if has_mean else (),
        draw(st.sampled_from(list(TensorLayout))),
        # Without the last: of its sides, ramps show one pixel less.
        kernel=draw(st.sampled_from(list(ImageKernel)[:-1])),
        pad=draw(st.tuples(*[st.integers(0, 255)] * 3)),
        **way,
    )
    return contract, sides


def assert_equal_everywhere(learned: LearnedContract, contract: ImageContract, sides: Any) -> None:
    """Equal, or equal on every picture."""
    again = slow(learned.contract, learned.contract.size or sides)
    rng = np.random.default_rng(9)
    for _ in range(30):
        size = rng.integers(8, 700, 2)
        image = Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8))
        expected, tensor = slow(contract, sides)(image), again(image)
        assert tensor.shape == expected.shape
        np.testing.assert_allclose(tensor, expected, atol=1e-4)


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(contracts())
def test_a_contract_is_learned_back(drawn: tuple[ImageContract, tuple[int | None, int | None]]) -> None:
    contract, sides = drawn
    assert_equal_everywhere(learn_contract(slow(contract, sides)), contract, sides)


class TestTheCommand:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        path = tmp_path / "model.onnx"
        path.write_bytes(unary(shape=("n", 3, 224, 224)))
        return path

    def test_a_function_of_a_file(self, model: Path, tmp_path: Path) -> None:
        made, code = tmp_path / "made.onnx", Path(preparations.__file__)
        done = call("contract", model, "--learn", f"{code}:Counting.plain", "--output", made)
        assert done.exit_code == 0, done.output
        assert "gray levels on average" in done.output
        image = LearningModel.load(made).input_features[0]
        assert image.contract == LEARNED["stretched"][2]  # type: ignore[attr-defined]

    def test_nothing_is_written_where_it_is_refused(self, model: Path, tmp_path: Path) -> None:
        made = tmp_path / "made.onnx"
        for name, words in {
            "own_mean": "subtracts a value that depends on the picture",
            "nothing": "has no attribute 'nothing'",
            "MEAN": "Expected a function, got array",
        }.items():
            failed = call("contract", model, "--learn", f"{preparations.__file__}:{name}", "--output", made)
            assert failed.exit_code != 0
            assert words in " ".join(failed.output.split())
        for options in (["--learn", "x"], ["--learn", "no.such.module:f"], ["--learn", "a:b", "--from", "clip"]):
            assert call("contract", model, *options, "--output", made).exit_code != 0
        assert not made.exists()

    def test_a_module_of_the_working_directory(self, model: Path, tmp_path: Path) -> None:
        code = Path(preparations.__file__).read_text()
        (tmp_path / "training.py").write_text(f"{code}\nprint('what a module prints spoils nothing')\n")
        command = [Path(sys.executable).with_name("winml-py"), "contract", model, "--learn", "training:stretched"]
        environment = os.environ | {"PYTHONPATH": str(Path(preparations.__file__).parents[1])}  # the module's helpers
        done = subprocess.run(
            [*command, "--output", tmp_path / "made.onnx", "--json"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert '"function": "training.stretched"' in done.stdout
