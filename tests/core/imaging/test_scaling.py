"""Which size a picture is scaled to, what is cropped and padded, and which size the tensor gets."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from PIL import Image

from helpers import reference
from helpers.models import data, tensor, unary
from winml_py import (
    BitmapBounds,
    BitmapPixelFormat,
    EvaluationError,
    ImageAnchor,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    ImageRounding,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
)
from winml_py.core.imaging.contract import compute_center_crop, compute_placement
from winml_py.scaling import (
    CropRatio,
    CropSquare,
    CropToAspect,
    Ends,
    Fit,
    FitHeight,
    Keep,
    LeastChange,
    LongestSide,
    Multiple,
    Scaling,
    ShortestSide,
    Stretch,
)

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

RGB8 = BitmapPixelFormat.RGB8
SIZES = [(451, 300), (300, 451), (30, 20), (1200, 90), (97, 640), (224, 224)]


def picture(width: int, height: int) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    rng = np.random.default_rng(width)
    waves = [127 + 80 * np.sin(x / 9 + 2 * i) * np.cos(y / (5 + i)) for i in range(3)]
    return Image.fromarray(
        np.clip(np.stack(waves, -1) + rng.normal(0, 12, (height, width, 3)), 0, 255).astype(np.uint8)
    )


def bound(
    image: Image.Image,
    contract: ImageContract,
    shape: Any = (1, 3, "h", "w"),
    options: LearningModelSessionOptions | None = None,
    **properties: Any,
) -> np.ndarray[Any, Any]:
    """The tensor that a picture becomes, height x width x channels."""
    session = LearningModelSession(LearningModel.load(unary(shape=shape)), None, options)
    binding = LearningModelBinding(session)
    binding.bind("x", image, {"ImageContract": contract, **properties})
    return session.evaluate(binding).outputs["y"].to_numpy()[0].transpose(1, 2, 0)


def centre(image: np.ndarray[Any, Any], height: int, width: int, rounding: Any) -> np.ndarray[Any, Any]:
    """The middle of an array, with zeros around it where it is too small."""
    tall, wide = image.shape[:2]
    image = np.pad(image, ((height, height), (width, width), (0, 0)))
    y, x = (
        rounding((side - size) / 2) if side >= size else -((size - side) // 2)
        for side, size in ((tall, height), (wide, width))
    )
    return image[height + y : 2 * height + y, width + x : 2 * width + x]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", ["LINEAR", "CUBIC", "LANCZOS", "BOX", "HAMMING"])
@pytest.mark.parametrize("rounding", [ImageRounding.DOWN, ImageRounding.HALF_EVEN])
def test_the_shorter_side_and_the_middle(size: tuple[int, int], kernel: str, rounding: ImageRounding) -> None:
    image = picture(*size)
    width, height = size
    short = 71
    scaled = (short, int(short * height / width)) if width < height else (int(short * width / height), short)
    filters = {"LINEAR": "BILINEAR", "CUBIC": "BICUBIC"}
    pixels = np.asarray(image.resize(scaled, Image.Resampling[filters.get(kernel, kernel)]))
    expected = centre(pixels, 60, 54, round if rounding is ImageRounding.HALF_EVEN else math.floor)
    scaling = ShortestSide(short, ends=Ends(crop_rounding=rounding))
    contract = ImageContract(RGB8, kernel=ImageKernel[f"ANTIALIASED_{kernel}"], scaling=scaling, size=(60, 54))
    np.testing.assert_array_equal(bound(image, contract), expected)


@pytest.mark.parametrize("kernel", [ImageKernel.NEAREST, ImageKernel.LINEAR, ImageKernel.CUBIC, ImageKernel.AREA])
def test_a_crop_after_opencvs_kernels(kernel: ImageKernel) -> None:
    image = picture(90, 60)
    whole = bound(image, ImageContract(RGB8, kernel=kernel, size=(40, 60), scaling=Stretch()))
    contract = ImageContract(RGB8, kernel=kernel, size=(32, 32), scaling=Stretch((40, 60)))
    np.testing.assert_array_equal(bound(image, contract), whole[4:36, 14:46])


@pytest.mark.parametrize(
    ("scaling", "size", "expected"),
    [
        (Keep(), (640, 480), (480, 640)),
        (Stretch((7, 9)), (640, 480), (7, 9)),
        (ShortestSide(256), (451, 300), (256, 384)),
        (ShortestSide(256, rounding=ImageRounding.HALF_EVEN), (451, 300), (256, 385)),
        (ShortestSide(256, rounding=ImageRounding.UP), (300, 451), (385, 256)),
        (LongestSide(1024, rounding=ImageRounding.HALF_UP), (451, 300), (681, 1024)),
        (ShortestSide(800, limit=1333), (640, 480), (800, 1066)),
        (ShortestSide(800, limit=1333), (900, 300), (444, 1333)),
        (ShortestSide(800, limit=1333), (300, 900), (1333, 444)),
        # Detectron2's: half a pixel is rounded up, also of the side that the limit makes follow.
        (ShortestSide(800, limit=1333, rounding=ImageRounding.HALF_UP), (243, 486), (1333, 667)),
        (Keep(multiple=Multiple(32)), (451, 300), (288, 448)),
        (Keep(multiple=Multiple(32, ImageRounding.UP)), (451, 300), (320, 480)),
        (LeastChange(518, 518, multiple=Multiple(14, ImageRounding.HALF_EVEN)), (640, 480), (518, 686)),
        (LeastChange(518, 518, multiple=Multiple(14, ImageRounding.HALF_EVEN)), (320, 240), (392, 518)),
        # PaddleOCR's detector: pictures are limited, and both sides become multiples of 32.
        (LongestSide(960, enlarges=False, multiple=Multiple(32, ImageRounding.HALF_EVEN)),
         (451, 300), (288, 448)),
        (LongestSide(960, enlarges=False, multiple=Multiple(32, ImageRounding.HALF_EVEN)),
         (1920, 1080), (544, 960)),
        # RapidOCR's: small pictures grow.
        (ShortestSide(736, shrinks=False, multiple=Multiple(32, ImageRounding.HALF_EVEN)),
         (451, 300), (736, 1120)),
        (ShortestSide(736, shrinks=False, multiple=Multiple(32, ImageRounding.HALF_EVEN)),
         (1920, 1080), (1088, 1920)),
        (Fit((100, 150), rounding=ImageRounding.DOWN, enlarges=False), (60, 40), (40, 60)),
        (Fit((100, 150), rounding=ImageRounding.DOWN, enlarges=False), (600, 200), (50, 150)),
        (Fit((100, 150), rounding=ImageRounding.DOWN, shrinks=False), (600, 200), (200, 600)),
        # PaddleOCR's readers: the height is fixed, and the width is rounded up, but never beyond the tensor's.
        (FitHeight(), (20, 100), (48, 10)),
        (FitHeight(), (100, 15), (48, 320)),
        (FitHeight(), (101, 15), (48, 323)),
        (FitHeight((48, 192)), (101, 50), (48, 97)),
        (FitHeight((32, 64)), (1, 1000), (32, 1)),
        (ShortestSide(4), (1, 1000), (4000, 4)),
        (LongestSide(4), (1, 1000), (4, 1)),
    ],
)  # fmt: skip
def test_the_size_that_a_picture_is_scaled_to(
    scaling: Scaling, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert scaling.compute_size(*size) == expected
    assert ImageContract(scaling=scaling) == ImageContract.from_metadata(ImageContract(scaling=scaling).to_metadata())


def test_the_crop_ratio_is_of_the_tensors_size() -> None:
    ratio = CropRatio(0.875)
    assert ratio.compute_size(451, 300, (224, 224)) == (256, 384)
    assert ratio.compute_size(451, 300, (240, 300)) == (274, 411)
    with pytest.raises(InvalidArgumentError, match="but no size is specified"):
        bound(picture(30, 20), ImageContract.imagenet())


def test_the_middle_is_cropped_first() -> None:
    """Perceiver's order: a square of 224 / 256 of the shorter side, then the size."""
    image = picture(451, 300)
    side = int(0.875 * 300)
    left, top = (451 - side) // 2, (300 - side) // 2
    square = image.crop((left, top, left + side, top + side))
    expected = np.asarray(square.resize((64, 64), Image.Resampling.BICUBIC))
    scaling = CropSquare(0.875)
    levels = np.abs(bound(image, ImageContract(RGB8, size=(64, 64), scaling=scaling)) - expected)
    assert levels.mean() <= 0.5
    assert levels.max() <= 3


@pytest.mark.parametrize("anchor", ImageAnchor)
def test_padding_to_a_size(anchor: ImageAnchor) -> None:
    image = picture(40, 25)
    scaling = LongestSide(48, ends=Ends(anchor=anchor))
    contract = ImageContract(RGB8, size=(48, 48), scaling=scaling, pad=(1, 2, 3))
    came = bound(image, contract)
    inner = np.asarray(image.resize((48, 30), Image.Resampling.BICUBIC))
    top = 9 if anchor is ImageAnchor.CENTER else 0
    np.testing.assert_array_equal(came[top : top + 30], inner)
    assert (np.delete(came, range(top, top + 30), axis=0) == (1, 2, 3)).all()


# Free sides


@pytest.mark.parametrize("shape", [(-1, 3, 48, -1), (-1, 3, -1, -1)])
def test_the_widest_line_of_a_batch_decides_the_width(shape: tuple[int, ...]) -> None:
    """PaddleOCR's reader, step by step: at least 320 wide, and the number 0 right of each line."""
    images = [picture(*size) for size in ((101, 15), (150, 17), (30, 40), (9, 50))]
    model = LearningModel.load(unary(shape=[size if size > 0 else f"d{axis}" for axis, size in enumerate(shape)]))
    model.contracts["x"] = ImageContract.rapidocr("rec")
    session = LearningModelSession(model)
    for chosen in (images, images[2:]):
        came = session.evaluate_features({"x": chosen}).outputs["y"].to_numpy()
        width = int(48 * max([320 / 48, *(image.width / image.height for image in chosen)]))
        expected = np.zeros((len(chosen), 48, width, 3), np.float32)
        for line, image in zip(expected, chosen, strict=True):
            scaled = cv2.resize(np.asarray(image), (min(width, math.ceil(48 * image.width / image.height)), 48))
            line[:, : scaled.shape[1]] = scaled[..., ::-1].astype(np.float32) / 127.5 - 1
        np.testing.assert_allclose(came, expected.transpose(0, 3, 1, 2), atol=1e-6)
    assert width == 320
    binding = LearningModelBinding(session)
    binding.bind("x", picture(90, 40), {"BitmapBounds": [10, 10, 60, 5]})
    assert session.evaluate(binding).outputs["y"].to_numpy().shape == (1, 3, 48, 576)


def test_two_free_sides_keep_the_pictures_size_and_pad_to_a_multiple() -> None:
    image = picture(70, 50)
    np.testing.assert_array_equal(bound(image, ImageContract(RGB8)), np.asarray(image))
    padded = bound(image, ImageContract(RGB8, scaling=Keep(ends=Ends(anchor=ImageAnchor.TOP_LEFT, pad_multiple=32))))
    assert padded.shape == (64, 96, 3)
    np.testing.assert_array_equal(padded[:50, :70], np.asarray(image))
    assert not padded[50:].any()


def test_one_free_side_follows_the_aspect_ratio() -> None:
    image = picture(200, 60)
    free_width = bound(image, ImageContract(RGB8), (1, 3, 48, "w"))
    np.testing.assert_array_equal(free_width, np.asarray(image.resize((160, 48), Image.Resampling.BICUBIC)))
    free_height = bound(image, ImageContract(RGB8), (1, 3, "h", 90))
    np.testing.assert_array_equal(free_height, np.asarray(image.resize((90, 27), Image.Resampling.BICUBIC)))
    limited = bound(image, ImageContract(RGB8, scaling=LongestSide(100)), (1, 3, 48, "w"))
    np.testing.assert_array_equal(limited, np.asarray(image.resize((100, 48), Image.Resampling.BICUBIC)))
    multiple = Keep(multiple=Multiple(32, ImageRounding.UP))
    assert bound(picture(201, 60), ImageContract(RGB8, scaling=multiple), (1, 3, 48, "w")).shape == (48, 160, 3)
    padded = bound(picture(190, 60), ImageContract(RGB8, scaling=Keep(ends=Ends(pad_multiple=32))), (1, 3, 48, "w"))
    assert padded.shape == (48, 160, 3)
    assert not padded[:, [0, 3, 156, 159]].any()  # 152 of 160 columns


def test_a_size_is_taken_from_the_bind_then_the_contract_then_the_options() -> None:
    image = picture(40, 40)
    options = LearningModelSessionOptions()
    options.override_named_dimension("h", 16)
    assert bound(image, ImageContract(RGB8, size=(12, 10))).shape == (12, 10, 3)
    assert bound(image, ImageContract(RGB8, size=(12, 10)), ImageSize=(8, 9)).shape == (8, 9, 3)
    assert bound(image, ImageContract(RGB8), options=options).shape == (16, 16, 3)
    options.override_named_dimension("w", 20)
    assert bound(image, ImageContract(RGB8), options=options).shape == (16, 20, 3)


@pytest.mark.parametrize("source", ["bind", "contract"])
@pytest.mark.parametrize("fixed", ["model", "override", "shape"])
def test_a_size_that_contradicts_is_an_error(source: str, fixed: str) -> None:
    options, shape = LearningModelSessionOptions(), (1, 3, "h", "w")
    if fixed == "model":
        shape = (1, 3, 16, "w")
    elif fixed == "override":
        options.override_named_dimension("h", 16)
    else:
        options.override_input_shape("x", (1, 3, 16, -1))
    contract = ImageContract(RGB8, size=(12, 10) if source == "contract" else None)
    stated = {"ImageSize": (12, 10)} if source == "bind" else {}
    with pytest.raises(InvalidBindingError, match=r"The height of the model variable x is 16, but .* specifies 12"):
        bound(picture(30, 20), contract, shape, options, **stated)


@pytest.mark.parametrize("size", [3, (1, 2, 3), (0, 4), "ab", (1.5, 2)])
def test_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(InvalidBindingError, match="The property ImageSize cannot be"):
        bound(picture(30, 20), ImageContract(RGB8), ImageSize=size)
    with pytest.raises(InvalidArgumentError, match="An image contract's size cannot be"):
        ImageContract(size=size)


def test_free_sides_without_a_name_are_fixed_by_position() -> None:
    options = LearningModelSessionOptions()
    options.override_input_shape("x", (1, 3, 24, 32))
    assert options.to_dict()["input_shape_overrides"] == {"x": (1, 3, 24, 32)}
    again = LearningModelSessionOptions.from_dict({"input_shape_overrides": {"x": [1, 3, 24, 32]}})
    assert again.input_shape_overrides == options.input_shape_overrides
    for made in (options, again):
        assert bound(picture(40, 20), ImageContract(RGB8), (1, 3, None, None), made).shape == (24, 32, 3)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("y", (1, 3, 8, 8), "the model has no such input"),
        ("x", (1, 3, 8), "overrides? the shape of x with"),
        ("x", (1, 4, 8, 8), "overrides? the shape of x with"),
    ],
)
def test_shapes_that_do_not_fit_the_model(name: str, shape: Any, words: str) -> None:
    options = LearningModelSessionOptions()
    options.override_input_shape(name, shape)
    with pytest.raises(InvalidArgumentError, match=words):
        LearningModelSession(LearningModel.load(unary(shape=(1, 3, "h", "w"))), None, options)


@pytest.mark.parametrize("shape", [(), (0, 3), (1, "h"), (1, -2), 5])
def test_shapes_that_are_none(shape: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        LearningModelSessionOptions().override_input_shape("x", shape)


def test_pictures_of_a_batch_must_become_one_size() -> None:
    session = LearningModelSession(LearningModel.load(unary(shape=("n", 3, "h", "w"))))
    pictures = [ImageFeatureValue.from_pil(picture(*size)) for size in ((40, 20), (80, 40))]
    scaled = ImageContract(RGB8, scaling=ShortestSide(10))
    binding = LearningModelBinding(session)
    binding.bind("x", pictures, {"ImageContract": scaled})
    assert session.evaluate(binding).outputs["y"].to_numpy().shape == (2, 3, 10, 20)
    with pytest.raises(InvalidArgumentError, match="these would become 40x20, 80x40"):
        binding.bind("x", pictures, {"ImageContract": ImageContract(RGB8)})


def test_a_run_that_fails_on_a_free_size_says_how_to_state_one() -> None:
    """A detector's two paths: one halves the size, the other doubles it back, which wants even sides."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["half"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["half", "", "twice"], ["back"], mode="nearest"),
        helper.make_node("Concat", ["x", "back"], ["y"], axis=1),
    ]
    ends = [tensor("x", (1, 3, "h", "w"))], [tensor("y", (1, 6, "h", "w"))]
    content = data(nodes, *ends, {"twice": np.float32([1, 1, 2, 2])})
    session = LearningModelSession(LearningModel.load(content))
    binding = LearningModelBinding(session)
    binding.bind("x", picture(41, 21), {"ImageContract": ImageContract(RGB8)})
    with pytest.raises(EvaluationError) as raised:
        session.evaluate(binding)
    assert "the picture for x kept its own size, 41x21" in str(raised.value)
    assert "ImageContract(size=(height, width))" in raised.value.hint
    binding.bind("x", picture(41, 21), {"ImageContract": ImageContract(RGB8, size=(20, 40))})
    assert session.evaluate(binding).outputs["y"].to_numpy().shape == (1, 6, 20, 40)


@pytest.mark.parametrize(
    ("rule", "arguments", "words"),
    [
        (Stretch, {"size": 3}, "The size of Stretch cannot be 3"),
        (Fit, {"size": (3, 0)}, r"The size of Fit cannot be \(3, 0\)"),
        (FitHeight, {"size": 48}, "The size of FitHeight cannot be 48"),
        (ShortestSide, {"pixels": 0}, "The pixels of ShortestSide cannot be 0"),
        (ShortestSide, {"pixels": None}, "The pixels of ShortestSide cannot be None"),
        (LongestSide, {"pixels": 2.5}, "The pixels of LongestSide cannot be 2.5"),
        (CropRatio, {"ratio": 1.5}, "The ratio of CropRatio cannot be 1.5"),
        (CropSquare, {"ratio": "x"}, "The ratio of CropSquare cannot be 'x'"),
        (Fit, {"enlarges": 0}, "The enlarges of Fit cannot be 0"),
        (Keep, {"rounding": 9}, "The rounding of Keep"),
        (Keep, {"multiple": 32}, "Expected a Multiple, got int"),
        (Ends, {"anchor": 9}, "The anchor of Ends"),
        (Multiple, {"of": 0}, "The of of Multiple cannot be 0"),
    ],
)
def test_scalings_that_mean_nothing(rule: type[Scaling], arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        rule(**arguments)


@pytest.mark.parametrize(
    "text", ["side=3", "shortest_side", "shortest_side=x", "keep,rounding=sideways", "stretch=3", "fit,limit=3", "="]
)
def test_metadata_that_mean_nothing(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Image\.Scaling (is|cannot be)"):
        ImageContract.from_metadata({"Image.Scaling": text})


@pytest.mark.parametrize(
    "text", ["shortest_side=256,shortest_side=300", "fit,enlarges=false,enlarges=true", "keep,keep"]
)
def test_a_field_that_is_stated_twice(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="specifies a field twice"):
        Scaling.from_text(text)


def test_a_picture_that_may_not_change_keeps_its_size() -> None:
    for scaling in (Fit((9, 9), enlarges=False, shrinks=False), ShortestSide(9, enlarges=False, shrinks=False)):
        assert [scaling.compute_size(*size) for size in ((4, 5), (40, 50))] == [(5, 4), (50, 40)]


def test_a_long_thin_picture_is_not_scaled_to_gigabytes() -> None:
    thin = Image.new("RGB", (40_000, 1))
    with pytest.raises(InvalidBindingError, match="would be scaled to 40960000x1024, but the limit is"):
        bound(thin, ImageContract(RGB8, size=(8, 8), scaling=ShortestSide(1024)))


@pytest.mark.parametrize("size", SIZES)
def test_a_picture_fits_into_a_box(size: tuple[int, int]) -> None:
    width, height = size
    scale = min(60 / height, 90 / width)
    for rounding, expected in ((ImageRounding.DOWN, math.floor), (ImageRounding.HALF_EVEN, round)):
        scaling = Fit((60, 90), rounding=rounding)
        fitted = max(1, expected(height * scale)), max(1, expected(width * scale))
        assert scaling.compute_size(width, height) == fitted
        assert ImageContract.from_metadata(ImageContract(scaling=scaling).to_metadata()).scaling == scaling


@pytest.mark.parametrize("size", SIZES)
def test_torchvision_limits_the_rounded_side(size: tuple[int, int]) -> None:
    short, long = sorted(size)
    new_short, new_long = 71, int(71 * long / short)
    if new_long > 100:
        new_short, new_long = int(100 * new_short / new_long), 100
    scaling = ShortestSide(71, limit=100, limits_rounded=True)
    assert scaling.compute_size(short, long) == (new_long, new_short)
    assert scaling.compute_size(long, short) == (new_short, new_long)
    assert ImageContract.from_metadata(ImageContract(scaling=scaling).to_metadata()).scaling == scaling


@settings(max_examples=2000)
@given(*[st.integers(1, 5000)] * 4)
def test_the_centre_crop_is_windows_mls(width: int, height: int, model_width: int, model_height: int) -> None:
    crop = compute_center_crop(width, height, model_width, model_height)
    assert tuple(crop) == reference.center_crop(width, height, model_width, model_height)
    assert crop.width >= 1
    assert crop.height >= 1
    assert crop.x + crop.width <= width
    assert crop.y + crop.height <= height


@settings(max_examples=1000, deadline=None)
@given(*[st.integers(1, 3000)] * 4)
def test_the_letterbox_keeps_the_shape_and_lies_in_the_middle(
    width: int, height: int, model_width: int, model_height: int
) -> None:
    x, y, inner_width, inner_height = compute_placement(width, height, (model_height, model_width), Fit()).target
    assert inner_width == model_width or inner_height == model_height
    assert 0 <= model_width - inner_width - 2 * x <= 1
    assert 0 <= model_height - inner_height - 2 * y <= 1
    scale = min(model_width / width, model_height / height)
    assert abs(inner_width - max(1, width * scale)) <= 0.5
    assert abs(inner_height - max(1, height * scale)) <= 0.5


WHOLE = [CropToAspect(), Stretch(), Fit()]


@settings(max_examples=500, deadline=None)
@given(*[st.integers(1, 500)] * 4, st.sampled_from(WHOLE), st.data())
def test_a_placement_lies_inside(
    width: int, height: int, model_width: int, model_height: int, scaling: Scaling, data: st.DataObject
) -> None:
    bounds = None
    if data.draw(st.booleans()):
        x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
        bounds = BitmapBounds(x, y, data.draw(st.integers(1, width - x)), data.draw(st.integers(1, height - y)))
    placement = compute_placement(width, height, (model_height, model_width), scaling, bounds)
    part, target = placement.part, placement.target
    assert (placement.picture, placement.tensor) == ((height, width), (model_height, model_width))
    assert 0 <= part.x < part.x + part.width <= width
    assert 0 <= part.y < part.y + part.height <= height
    assert 0 <= target.x < target.x + target.width <= model_width
    assert 0 <= target.y < target.y + target.height <= model_height
    if bounds is not None:
        assert part == bounds
    if scaling != Fit():
        assert target == (0, 0, model_width, model_height)
    assert placement.has_padding is (target != (0, 0, model_width, model_height))
    is_whole = part == (0, 0, width, height) and (width, height) == (model_width, model_height)
    assert placement.is_identity is (is_whole and not placement.has_padding)


def test_what_a_placement_says() -> None:
    center = compute_placement(1920, 1080, (540, 540), CropToAspect())
    whole = (0, 0, 540, 540)
    assert center == ((420, 0, 1080, 1080), (540, 540), whole, whole, (1080, 1920), (540, 540))
    assert (center.shrink, center.is_identity, center.has_padding) == ((2, 2), False, False)
    boxed = compute_placement(40, 20, (20, 20), Fit())
    assert boxed == ((0, 0, 40, 20), (10, 20), (0, 0, 20, 10), (0, 5, 20, 10), (20, 40), (20, 20))
    assert (boxed.shrink, boxed.is_identity, boxed.has_padding) == ((2, 2), False, True)
    for scaling in WHOLE:
        assert compute_placement(8, 6, (6, 8), scaling).is_identity
        moved = compute_placement(8, 6, (3, 4), scaling, BitmapBounds(2, 1, 4, 3))
        assert (moved.part, moved.is_identity, moved.has_padding) == ((2, 1, 4, 3), False, False)
