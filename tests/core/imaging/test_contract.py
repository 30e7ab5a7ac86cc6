"""The image contract: every format, range, dtype, layout, crop mode and kernel, against slow references."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from PIL import Image

from helpers import reference
from helpers.models import FLOAT, FLOAT16, data, tensor, unary
from helpers.pairs import pairs
from helpers.sessions import open_session
from helpers.tensorizing import detensorize, tensorize
from winml_py import (
    BitmapBounds,
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    ImageGray,
    ImageKernel,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    SizeMismatchError,
    SoftwareBitmap,
    TensorFeatureDescriptor,
    TensorKind,
    TensorLayout,
    VideoFrame,
)
from winml_py.scaling import CropToAspect, Fit, Scaling, Stretch

pytestmark = pytest.mark.usefixtures("pillow_scales")  # to the last level

Array = np.ndarray[Any, Any]

SOURCES = ("GRAY8", "RGB8", "BGR8", "RGBA8", "BGRA8", "GRAY16", "RGBA16", "NV12", "P010", "YUY2")
ORDERS = ("GRAY8", "RGB8", "BGR8")
DTYPES = {TensorKind.FLOAT: np.float32, TensorKind.FLOAT16: np.float16, TensorKind.UINT8: np.uint8}
RGB8, BGR8, GRAY8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8, BitmapPixelFormat.GRAY8
ZERO_TO_ONE = LearningModelPixelRange.ZERO_TO_ONE


def bitmap(pixel_format: str, width: int, height: int, seed: int = 0) -> SoftwareBitmap:
    made = SoftwareBitmap(BitmapPixelFormat[pixel_format], width, height)
    pixels = made.to_numpy()
    pixels[:] = np.random.default_rng(seed).integers(0, np.iinfo(pixels.dtype).max, pixels.shape, endpoint=True)
    return made


def plain(picture: SoftwareBitmap) -> tuple[Array, str]:
    """The picture in 8 bits: 16-bit ones by division, video by the formulas of BT.601."""
    pixels, name = picture.to_numpy(), picture.bitmap_pixel_format.name
    if name in ("GRAY16", "RGBA16"):
        return np.floor(pixels / 257 + 0.5).astype(np.uint8), name.replace("16", "8")
    if name in ("NV12", "P010", "YUY2"):
        return video_to_rgb(pixels, name), "RGB8"
    return pixels, name


def video_to_rgb(pixels: Array, name: str) -> Array:
    if name == "YUY2":
        y = pixels[..., 0].astype(float)
        u, v = (np.repeat(pixels[:, start::2, 1], 2, axis=1).astype(float) for start in (0, 1))
    else:
        if name == "P010":
            pixels = pixels >> 8
        height = pixels.shape[0] * 2 // 3
        y = pixels[:height].astype(float)
        u, v = (pixels[height:, start::2].repeat(2, axis=0).repeat(2, axis=1).astype(float) for start in (0, 1))
    y, u, v = 1.164 * np.maximum(y - 16, 0), u - 128, v - 128
    rgb = np.stack([y + 1.596 * v, y - 0.813 * v - 0.391 * u, y + 2.018 * u], axis=-1)
    return np.clip(np.rint(rgb), 0, 255).astype(np.uint8)


def expected_tensor(picture: SoftwareBitmap, contract: ImageContract, width: int, height: int, dtype: Any) -> Array:
    """Crop, scale, pad, order and map, each by itself, in float32."""
    pixels, name = plain(picture)
    if contract.scaling == CropToAspect():
        x, y, crop_width, crop_height = reference.center_crop(pixels.shape[1], pixels.shape[0], width, height)
        pixels = pixels[y : y + crop_height, x : x + crop_width]
    inner = (width, height)
    if contract.scaling == Fit():
        scale = min(width / pixels.shape[1], height / pixels.shape[0])
        inner = tuple(
            min(max(1, round(side * scale)), whole)
            for side, whole in zip(pixels.shape[1::-1], (width, height), strict=True)
        )
    pixels = reference.scale(np.ascontiguousarray(pixels), *inner) if pixels.shape[1::-1] != inner else pixels
    colours = np.array([[reference.rgb(pixel, name) for pixel in row] for row in pixels], np.uint8)
    if contract.scaling == Fit():
        padded = np.full((height, width, 3), contract.pad, np.uint8)
        left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
        padded[top : top + inner[1], left : left + inner[0]] = colours
        colours = padded
    if contract.pixel_format is GRAY8:
        colours = np.array([[[reference.gray(*map(int, pixel))] for pixel in row] for row in colours], np.uint8)
    elif contract.pixel_format is BGR8:
        colours = colours[..., ::-1]
    scale, shift = reference.SCALES[contract.pixel_range.name]
    numbers = colours.astype(np.float32) / np.float32(scale) - np.float32(shift)
    if contract.mean:
        numbers = numbers - np.array(contract.mean, np.float32)
    if contract.std:
        numbers = numbers / np.array(contract.std, np.float32)
    if dtype == np.uint8:
        numbers = np.clip(np.rint(numbers), 0, 255)
    numbers = numbers.astype(dtype)
    return numbers if contract.layout is TensorLayout.NHWC else numbers.transpose(2, 0, 1)


def resize(pixels: Array, width: int, height: int, kernel: ImageKernel = ImageKernel.ANTIALIASED_CUBIC) -> Array:
    """The levels of a picture that is stretched to a size."""
    contract = ImageContract(RGB8, scaling=Stretch(), kernel=kernel)
    out = np.zeros((3, height, width), np.float32)
    tensorize(SoftwareBitmap.from_array(pixels, RGB8), contract, out)
    return out.transpose(1, 2, 0)


def empty(contract: ImageContract, width: int, height: int, dtype: Any) -> Array:
    shape = (contract.channels, height, width)
    if contract.layout is TensorLayout.NHWC:
        shape = (height, width, contract.channels)
    return np.zeros(shape, dtype)


# Golden: every combination


@pytest.mark.filterwarnings("ignore::winml_py.errors.MissingContractWarning")  # means that hardly any model has
@pytest.mark.parametrize(
    ("source", "order", "layout", "dtype"), pairs(product(SOURCES, ORDERS, TensorLayout, DTYPES.values()))
)
def test_every_format_layout_and_type(source: str, order: str, layout: TensorLayout, dtype: Any) -> None:
    for pixel_range, has_mean in product(LearningModelPixelRange, (False, True)):
        channels = 1 if order == "GRAY8" else 3
        mean, std = ((0.5, 0.25, 0.125)[:channels], (2.0, 0.3, 0.7)[:channels]) if has_mean else ((), ())
        contract = ImageContract(BitmapPixelFormat[order], pixel_range, mean, std, layout)
        picture = bitmap(source, 6, 4)
        out = empty(contract, 6, 4, dtype)
        tensorize(picture, contract, out)
        expected = expected_tensor(picture, contract, 6, 4, dtype)
        if source in ("NV12", "P010", "YUY2"):  # OpenCV's integers against floats: a level, here and there
            step = np.abs(np.diff(contract.numbers(np.dtype(np.float32)), axis=1)).max() + (dtype == np.uint8)
            np.testing.assert_allclose(out.astype(float), expected.astype(float), atol=2.1 * step)
        elif has_mean and dtype == np.float32:  # one factor and one summand, in place of three steps
            np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
        else:
            np.testing.assert_array_equal(out, expected)


WHOLE = [CropToAspect(), Stretch(), Fit()]
SIZES = [((7, 5), (4, 4)), ((5, 9), (6, 3)), ((3, 3), (7, 8)), ((1, 9), (4, 4)), ((31, 33), (5, 7)), ((8, 6), (8, 6))]


@pytest.mark.parametrize(
    ("source", "sizes", "layout", "scaling"),
    pairs(product(["GRAY8", "BGR8", "RGBA8"], SIZES, TensorLayout, WHOLE)),
)
def test_every_rule_of_the_tensors_size(
    source: str, sizes: tuple[Any, Any], layout: TensorLayout, scaling: Scaling
) -> None:
    size, target = sizes
    for order, pad in product(ORDERS, ((9, 9, 9), (10, 20, 30))):
        contract = ImageContract(BitmapPixelFormat[order], layout=layout, scaling=scaling, pad=pad)
        picture = bitmap(source, *size)
        out = empty(contract, *target, np.float32)
        tensorize(picture, contract, out)
        np.testing.assert_array_equal(out, expected_tensor(picture, contract, *target, np.float32))


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize(("width", "height"), [(256, 256), (257, 259)])
def test_large_pictures(width: int, height: int, dtype: Any) -> None:
    contract = replace(ImageContract.imagenet(), scaling=CropToAspect()) if dtype != np.uint8 else ImageContract(RGB8)
    picture = bitmap("BGR8", width, height)
    out = empty(contract, width, height, dtype)
    tensorize(picture, contract, out)
    table = contract.numbers(np.dtype(dtype))
    for channel, numbers in enumerate(table):
        np.testing.assert_allclose(out[channel], numbers[picture.to_numpy()[..., 2 - channel]], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("view", ["rows", "columns", "upside down", "mirrored", "turned", "crop"])
@pytest.mark.parametrize("layout", TensorLayout, ids=lambda layout: layout.name)
def test_views_of_any_strides(view: str, layout: TensorLayout) -> None:
    whole = np.random.default_rng(1).integers(0, 256, (20, 24, 4), np.uint8)
    views = {
        "rows": whole[::2],
        "columns": whole[:, ::3],
        "upside down": whole[::-1],
        "mirrored": whole[:, ::-1],
        "turned": whole.swapaxes(0, 1),
        "crop": whole[3:9, 5:16],
    }
    for pixels, source, order in product((views[view],), ("RGBA8", "BGRA8"), ORDERS):
        contract = ImageContract(BitmapPixelFormat[order], layout=layout)
        height, width = pixels.shape[:2]
        results = []
        for array in (pixels, pixels.copy()):
            out = empty(contract, width, height, np.float32)
            tensorize(SoftwareBitmap.from_array(array, BitmapPixelFormat[source]), contract, out)
            results.append(out)
        np.testing.assert_array_equal(*results)


def test_a_warm_call_allocates_nothing() -> None:
    import tracemalloc

    plain = replace(ImageContract.imagenet(), scaling=CropToAspect())
    for source, contract in (
        ("BGR8", plain),
        ("BGRA8", ImageContract.inception()),
        ("NV12", plain),
        ("RGB8", ImageContract(GRAY8)),
    ):
        picture = bitmap(source, 640, 480)
        binding = tensorize(picture, contract, empty(contract, 640, 480, np.float32))
        tracemalloc.start()
        binding.bind("x", picture, {"ImageContract": contract})
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 80_000, source  # views, and numpy's buffer for casts; a plane has 307,200 bytes


@pytest.mark.parametrize("layout", TensorLayout, ids=lambda layout: layout.name)
@pytest.mark.parametrize("target", [*SOURCES])
def test_back_to_a_picture(target: str, layout: TensorLayout) -> None:
    contract = ImageContract(RGB8, ZERO_TO_ONE, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), layout)
    picture = bitmap("RGB8", 8, 6)
    numbers = empty(contract, 8, 6, np.float32)
    tensorize(picture, contract, numbers)
    back = SoftwareBitmap(BitmapPixelFormat[target], 8, 6)
    detensorize(numbers, contract, back)
    expected = SoftwareBitmap.convert(picture, BitmapPixelFormat[target]).to_numpy()
    if target in ("GRAY8", "GRAY16"):  # truncated, as the gray of tensors is
        grays = np.array([[reference.gray(*map(int, colour)) for colour in row] for row in picture.to_numpy()])
        expected = grays * (1 if target == "GRAY8" else 257)
    np.testing.assert_array_equal(back.to_numpy(), expected)


@pytest.mark.parametrize("source", ["RGB8", "BGR8", "RGBA8", "BGRA8", "GRAY8"])
def test_gray_as_pillow_mixes_it(source: str) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (30, 40, 3), np.uint8)
    expected = np.asarray(Image.fromarray(pixels).convert("L"))
    given = BitmapPixelFormat[source]
    bitmap = pixels if source == "RGB8" else expected if source == "GRAY8" else None
    if bitmap is None:
        bitmap = np.zeros((30, 40, len(source) - 1), np.uint8)
        for channel, level in zip(reference.RGB[source], pixels.transpose(2, 0, 1), strict=True):
            bitmap[..., channel] = level
    contract = ImageContract(GRAY8, gray=ImageGray.LUMA)
    session = LearningModelSession(LearningModel.load(unary(shape=(1, 1, 30, 40))))
    binding = LearningModelBinding(session)
    binding.bind("x", ImageFeatureValue.from_array(bitmap, given), {"ImageContract": contract})
    came = session.evaluate(binding).outputs["y"].to_numpy()[0, 0]
    # Pillow's weights have 16 bits, and OpenCV's 15.
    assert np.abs(came - expected).max() <= (0 if source == "GRAY8" else 1)
    assert (came == expected).mean() > 0.99
    assert contract.with_pixel_format(BGR8).gray is ImageGray.WINDOWS
    assert ImageContract.from_metadata(contract.to_metadata()) == contract
    assert contract.describe() == "GRAY8, zero_to255, luma"


@pytest.mark.parametrize("name", ["NV12", "P010", "YUY2"])
def test_video_formats_there_and_back(name: str) -> None:
    smooth = np.zeros((8, 8, 3), np.uint8)
    smooth[:4], smooth[4:, :4], smooth[4:, 4:] = (200, 30, 40), (20, 180, 90), (128, 128, 128)
    source = SoftwareBitmap.from_array(smooth, RGB8)
    back = SoftwareBitmap.convert(SoftwareBitmap.convert(source, BitmapPixelFormat[name]), RGB8)
    np.testing.assert_allclose(back.to_numpy().astype(int), smooth, atol=3)
    frame = VideoFrame(BitmapPixelFormat[name], 8, 8)
    VideoFrame.create_with_software_bitmap(source).copy_to(frame, None, BitmapBounds(2, 2, 4, 4))
    inside = SoftwareBitmap.convert(frame.software_bitmap, RGB8).to_numpy()[2:6, 2:6]
    np.testing.assert_allclose(inside.astype(int), resize(smooth, 4, 4), atol=20)  # colours of two pixels meet


# Geometry


@pytest.mark.parametrize("kernel", [ImageKernel.LINEAR, ImageKernel.CUBIC, ImageKernel.AREA])
def test_kernels_that_are_opencvs(kernel: ImageKernel) -> None:
    import cv2

    pixels = np.random.default_rng(2).integers(0, 256, (40, 60, 3), np.uint8)
    expected = cv2.resize(pixels, (25, 30), interpolation=getattr(cv2, f"INTER_{kernel.name}"))
    np.testing.assert_array_equal(resize(pixels, 25, 30, kernel), expected)
    if kernel is ImageKernel.AREA:  # means of blocks, where the factor is whole
        blocks = pixels.reshape(10, 4, 15, 4, 3).mean(axis=(1, 3))
        np.testing.assert_allclose(resize(pixels, 15, 10, kernel), blocks, atol=0.51)


def test_shrinking_much_is_near_pillow(cat: Any) -> None:
    with Image.open(cat) as image:
        large = image.convert("RGB").resize((1804, 1200), Image.Resampling.BICUBIC)
    pixels = np.asarray(large)
    for width, height in ((224, 149), (320, 213), (100, 66), (451, 300)):
        plain_result = np.asarray(large.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        difference = np.abs(resize(pixels, width, height) - plain_result).mean()
        assert difference <= 0.6
    less = np.asarray(large.resize((460, 306), Image.Resampling.BICUBIC))
    np.testing.assert_array_equal(resize(pixels, 460, 306), less)


# The contract itself


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pixel_format": BitmapPixelFormat.NV12}, "Pass BitmapPixelFormat.RGB8"),
        ({"scaling": Fit}, "Pass a rule of winml_py.scaling"),
        ({"scaling": 256}, "An image contract's scaling cannot be 256"),
        ({"pixel_range": 7}, "Pass a member of LearningModelPixelRange: ZERO_TO255"),
        ({"mean": (1, 2)}, "one finite number, or 3"),
        ({"mean": "123"}, "expected a number, or a list"),
        ({"mean": {1, 2, 3}}, "expected a number, or a list"),
        ({"std": {1: 2}}, "expected a number, or a list"),
        ({"mean": ("a",)}, "could not convert"),
        ({"std": (1, 0, 1)}, "std must not be 0"),
        ({"std": (1, float("nan"), 1)}, "finite"),
        ({"tensor_kind": TensorKind.INT64}, "FLOAT, FLOAT16 or UINT8"),
        ({"kernel": 17}, "contract's kernel cannot be 17. Pass a member of ImageKernel: NEAREST"),
        ({"kernel": ZERO_TO_ONE}, "contract's kernel cannot be <LearningModelPixelRange"),
        ({"pad": (1, 2)}, "red, green and blue"),
        ({"pad": "abc"}, "red, green and blue"),
        ({"std": (1e-50,)}, "std must not be 0"),
        ({"mean": (1e300,)}, "one finite number"),
        ({"pixel_format": [1]}, "Pass BitmapPixelFormat.RGB8"),
        ({"tensor_kind": [1]}, "FLOAT, FLOAT16 or UINT8"),
        ({"pad": (1, 2, 256)}, "0 to 255"),
        ({"pad": "114"}, "red, green and blue"),
        ({"pad": float("nan")}, "0 to 255"),
        ({"pad": 0.5, "pixel_format": GRAY8}, "Pass a whole number"),
        ({"gray": 9}, "contract's gray cannot be 9"),
        ({"gray": ImageGray.LUMA}, "its tensor is BGR8"),
    ],
)
def test_contracts_that_mean_nothing(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        ImageContract(**fields)


def test_one_number_stands_for_all_channels() -> None:
    assert ImageContract(RGB8, mean=(127.5,), std=(2,)).mean == (127.5,) * 3
    assert ImageContract(GRAY8, mean=(1,)).mean == (1.0,)
    assert ImageContract(RGB8, std=np.float32(0.5), pad=114).std == (0.5,) * 3
    assert ImageContract(RGB8, pad=np.array([1, 2, 3])).pad == (1, 2, 3)
    assert repr(ImageContract(RGB8, pad=(7.0, np.float32(0.5), np.uint8(9))).pad) == "(7, 0.5, 9)"
    assert ImageContract(BitmapPixelFormat.RGBA8).pixel_format is RGB8
    assert ImageContract(BGR8).bitmap_pixel_format is BitmapPixelFormat.BGRA8


@pytest.mark.parametrize("layout", TensorLayout)
def test_padding_between_two_levels(layout: TensorLayout) -> None:
    contract = ImageContract(
        BGR8, ZERO_TO_ONE, (0.1, 0.2, 0.3), (0.5, 1, 2), layout, scaling=Fit(), pad=(0.5, 127.5, 9)
    )
    assert ImageContract.from_metadata(contract.to_metadata()) == contract
    shape = (1, 3, 4, 8) if layout is TensorLayout.NCHW else (1, 4, 8, 3)
    model = LearningModel.load(unary(shape=shape))
    model.contracts["x"] = contract
    came = (
        LearningModelSession(model).evaluate_features({"x": Image.new("RGB", (2, 2), "white")}).outputs["y"].to_numpy()
    )
    pixels = came[0] if layout is TensorLayout.NHWC else came[0].transpose(1, 2, 0)
    blue, green, red = (9 / 255 - 0.1) / 0.5, 0.5 - 0.2, (0.5 / 255 - 0.3) / 2
    np.testing.assert_allclose(pixels[:, [0, 1, 6, 7]], np.broadcast_to((blue, green, red), (4, 4, 3)), atol=1e-6)
    np.testing.assert_allclose(pixels[:, 2:6], np.broadcast_to((1.8, 0.8, 0.35), (4, 4, 3)), atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "number"), [({"mean": 200}, 0), ({"mean": -150, "factor": 1.1}, 255), ({"mean": 100.25}, 27)]
)
def test_padding_of_bytes_has_numbers_of_bytes(fields: dict[str, Any], number: int) -> None:
    """As the picture's own numbers, 127.5 less the mean or times the factor is cut to 0 to 255."""
    contract = ImageContract(RGB8, tensor_kind=TensorKind.UINT8, scaling=Fit(), pad=127.5, **fields)
    session = open_session(unary(shape=(1, 3, 4, 8), element=TensorProto.UINT8))
    (result,) = session.evaluate_many([Image.new("RGB", (2, 2))], contract=contract)
    assert set(result["y"].to_numpy()[..., [0, 1, 6, 7]].ravel()) == {number}


@pytest.mark.parametrize("task", ["det", "cls", "rec"])
def test_tensors_of_rapidocr(task: str) -> None:
    """Its own functions, which need no model."""
    pytest.importorskip("rapidocr")
    from rapidocr.ch_ppocr_cls.main import TextClassifier
    from rapidocr.ch_ppocr_det.utils import DetPreProcess
    from rapidocr.ch_ppocr_rec.main import TextRecognizer

    classifier, reader = object.__new__(TextClassifier), object.__new__(TextRecognizer)
    classifier.cls_image_shape, reader.rec_image_shape = (3, 48, 192), (3, 48, 320)
    theirs = {
        "det": lambda bgr: DetPreProcess(736, "min", [0.5] * 3, [0.5] * 3)(bgr)[0],
        "cls": classifier.resize_norm_img,
        "rec": lambda bgr: reader.resize_norm_img(bgr, max(320 / 48, bgr.shape[1] / bgr.shape[0])),
    }
    model = LearningModel.load(unary(shape=(1, 3, "h", "w")))
    model.contracts["x"] = ImageContract.rapidocr(task)
    session = LearningModelSession(model)
    for width, height in ((640, 400), (900, 120), (333, 21), (40, 77), (1601, 801)):
        pixels = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
        came = session.evaluate_features({"x": Image.fromarray(pixels)}).outputs["y"].to_numpy()[0]
        np.testing.assert_allclose(came, theirs[task](pixels[..., ::-1]), atol=1e-6)
    with pytest.raises(InvalidArgumentError, match="Expected the task det or cls or rec, got 'detector'"):
        ImageContract.rapidocr("detector")


def test_mean_and_std_go_with_their_colours() -> None:
    contract = ImageContract.imagenet()
    reversed_ = contract.with_pixel_format(BGR8)
    assert (reversed_.mean, reversed_.std) == ((0.406, 0.456, 0.485), (0.225, 0.224, 0.229))
    assert reversed_.with_pixel_format(RGB8) == contract
    assert contract.with_pixel_format(BitmapPixelFormat.RGBA8) == contract
    gray = ImageContract(mean=0.5, std=0.25).with_pixel_format(GRAY8)  # type: ignore[arg-type]
    assert (gray.mean, gray.std) == ((0.5,), (0.25,))
    tensors = [empty(contract, 8, 8, np.float32) for _ in range(2)]
    for its, out in zip((contract, reversed_), tensors, strict=True):
        tensorize(bitmap("RGB8", 8, 8), its, out)
    np.testing.assert_array_equal(tensors[0], tensors[1][::-1])


CONTRACTS = st.builds(
    ImageContract,
    st.sampled_from([RGB8, BGR8, GRAY8]),
    st.sampled_from(list(LearningModelPixelRange)),
    st.one_of(st.just(()), st.tuples(st.floats(-300, 300))),
    st.one_of(st.just(()), st.tuples(st.floats(0.001, 300))),
    st.sampled_from(list(TensorLayout)),
    st.sampled_from([None, *DTYPES]),
    st.sampled_from(WHOLE),
    st.sampled_from(list(ImageKernel)),
    st.tuples(*[st.integers(0, 255)] * 3),
)


@given(CONTRACTS)
def test_a_contract_survives_the_metadata(contract: ImageContract) -> None:
    stated = contract.to_metadata()
    assert ImageContract.from_metadata(stated) == contract
    assert ImageContract.from_metadata({**stated, "Other": "x"}) == contract
    assert contract.describe().startswith(contract.pixel_format.name)


def test_windows_mls_keys_come_first() -> None:
    assert ImageContract().to_metadata() == {
        "Image.BitmapPixelFormat": "Bgr8",
        "Image.NominalPixelRange": "NominalRange_0_255",
        "Image.ColorSpaceGamma": "SRGB",
    }
    assert ImageContract.imagenet().to_metadata()["Image.Mean"] == "0.485,0.456,0.406"


@pytest.mark.parametrize(
    "metadata", [{"Image.Layout": "CHWN"}, {"Image.Mean": "a,b"}, {"Image.Std": "0"}, {"Image.Pad": "256,2,3"}]
)
def test_metadata_nobody_can_keep_to_make_a_tensor(metadata: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        ImageContract.from_metadata(metadata)
    feature = LearningModel.load(unary(shape=(1, 3, 4, 4), denotation="IMAGE", metadata=metadata)).input_features[0]
    assert isinstance(feature, TensorFeatureDescriptor)
    assert feature.unsupported_image_metadata


@given(st.sampled_from(list(LearningModelPixelRange)), st.tuples(*[st.floats(0.01, 300)] * 3))
def test_one_factor_and_summand_are_the_steps(pixel_range: LearningModelPixelRange, std: Any) -> None:
    contract = ImageContract(RGB8, pixel_range, (0.5, -3, 120), std)
    levels = np.arange(256, dtype=np.float64)
    for numbers, (factor, summand) in zip(contract.numbers(np.dtype(np.float32)), contract.affine(), strict=True):
        np.testing.assert_allclose(levels * factor + summand, numbers, rtol=1e-6, atol=1e-6 * np.abs(numbers).max())


def test_imagenet_is_torchvisions_arithmetic() -> None:
    # transforms.ToTensor, then transforms.Normalize: division by 255, then sub_, then div_, in float32.
    levels = np.arange(256, dtype=np.float32) / np.float32(255)
    numbers = ImageContract.imagenet().numbers(np.dtype(np.float32))
    for channel, (mean, std) in enumerate(zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True)):
        np.testing.assert_array_equal(numbers[channel], (levels - np.float32(mean)) / np.float32(std))


# Contracts and models


def identity(shape: Any, element: int = FLOAT, metadata: dict[str, str] | None = None) -> LearningModel:
    """A model that gives back its tensor x, denoted an image, as y, which is not."""
    ends = [tensor("x", shape, element, "IMAGE"), tensor("y", shape, element)]
    node = helper.make_node("Identity", ["x"], ["y"])
    return LearningModel.load(data([node], ends[:1], ends[1:], metadata=metadata))


ELEMENTS = {TensorKind.FLOAT: FLOAT, TensorKind.FLOAT16: FLOAT16, TensorKind.UINT8: TensorProto.UINT8}


@pytest.mark.parametrize("kind", DTYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("layout", TensorLayout, ids=lambda layout: layout.name)
def test_a_models_contract_is_kept_to(layout: TensorLayout, kind: TensorKind) -> None:
    contract = ImageContract(RGB8, ZERO_TO_ONE, (0.1,), (0.5,), layout, kind, Fit(), pad=(200, 100, 50))
    shape = (1, 3, 8, 6) if layout is TensorLayout.NCHW else (1, 8, 6, 3)
    model = identity(shape, ELEMENTS[kind], contract.to_metadata())
    feature = model.input_features[0]
    assert isinstance(feature, ImageFeatureDescriptor)
    assert feature.contract == contract
    assert (feature.width, feature.height, feature.tensor_kind) == (6, 8, kind)
    picture = bitmap("BGRA8", 12, 9)
    result = LearningModelSession(model).evaluate_features({"x": picture}).outputs["y"]
    expected = expected_tensor(picture, contract, 6, 8, DTYPES[kind])
    np.testing.assert_allclose(result.to_numpy()[0], expected, rtol=1e-6, atol=1e-6 if kind is TensorKind.FLOAT else 0)


def test_a_contract_at_bind_takes_the_models_place() -> None:
    binding = LearningModelBinding(LearningModelSession(identity((1, 3, 8, 6))))
    picture = bitmap("RGB8", 12, 9)
    contract = ImageContract.imagenet()
    binding.bind("x", picture, {"ImageContract": contract, "PixelRange": LearningModelPixelRange.ZERO_TO255})
    result = binding._session.evaluate(binding).outputs["y"].to_numpy()[0]
    # torchvision: Resize(floor(6 / 0.875)), which gives 8x6, then CenterCrop((8, 6)), which pads one row on each side
    scaled = Image.fromarray(picture.to_numpy()).resize((8, 6), Image.Resampling.BILINEAR).crop((1, -1, 7, 7))
    scaled = np.asarray(scaled).astype(np.float32)
    expected = (scaled - np.array(contract.mean, np.float32)) / np.array(contract.std, np.float32)
    np.testing.assert_allclose(result, expected.transpose(2, 0, 1), rtol=1e-6, atol=1e-5)


def test_a_contract_makes_pictures_of_bare_tensors() -> None:
    nhwc = LearningModelSession(LearningModel.load(unary(shape=(1, 6, 8, 3))))
    picture = bitmap("RGB8", 8, 6)
    binding = LearningModelBinding(nhwc)
    with pytest.raises(InvalidArgumentError, match="In a tensor of layout NCHW, pictures have 1 or 3 channels, not 6"):
        binding.bind("x", picture)
    binding.bind("x", picture, {"ImageContract": ImageContract(RGB8, layout=TensorLayout.NHWC)})
    np.testing.assert_array_equal(nhwc.evaluate(binding).outputs["y"].to_numpy()[0], picture.to_numpy())
    binding.bind("x", picture.to_numpy(), {"ImageContract": ImageContract(RGB8, layout=1), "BitmapPixelFormat": RGB8})
    np.testing.assert_array_equal(nhwc.evaluate(binding).outputs["y"].to_numpy()[0], picture.to_numpy())
    integers = LearningModelBinding(LearningModelSession(LearningModel.load(unary(shape=(1, 3, 6, 8), element=2))))
    with pytest.raises(InvalidBindingError, match="UInt8 if an ImageContract says so"):
        integers.bind("x", picture, {"ImageContract": ImageContract(RGB8)})
    integers.bind("x", picture, {"ImageContract": ImageContract(RGB8, tensor_kind=TensorKind.UINT8)})
    result = integers._session.evaluate(integers).outputs["y"].to_numpy()[0]
    np.testing.assert_array_equal(result, picture.to_numpy().transpose(2, 0, 1))


def test_contracts_that_do_not_fit() -> None:
    binding = LearningModelBinding(LearningModelSession(identity((1, 3, 8, 6))))
    picture = bitmap("RGB8", 12, 9)
    for contract, kind, words in (
        (ImageContract(GRAY8), InvalidBindingError, "In a tensor, GRAY8 pictures have 1 channels, not 3"),
        (ImageContract(RGB8, tensor_kind=TensorKind.FLOAT16), InvalidBindingError, "for Float16, but the"),
        (ImageContract(RGB8, layout=TensorLayout.NHWC), InvalidArgumentError, "In a tensor of layout NHWC, .* not 6"),
        ("imagenet", InvalidBindingError, "ImageContract cannot be 'imagenet'"),
    ):
        with pytest.raises(kind, match=words):
            binding.bind("x", picture, {"ImageContract": contract})
    zero = LearningModelBinding(LearningModelSession(identity((1, 3, 0, 6))))
    with pytest.raises(SizeMismatchError, match="no pixels"):
        zero.bind("x", picture)


def test_an_output_with_a_contract_is_a_picture_again() -> None:
    contract = ImageContract(RGB8, ZERO_TO_ONE, (0.5,), (0.25,), TensorLayout.NHWC)
    model = LearningModel.load(unary(shape=(2, 6, 8, 3), denotation="IMAGE", metadata=contract.to_metadata()))
    pictures = [bitmap("RGB8", 8, 6, seed) for seed in (1, 2)]
    frames = [VideoFrame(BitmapPixelFormat.BGR8, 8, 6) for _ in pictures]
    session = LearningModelSession(model)
    for outputs in ({}, {"y": frames}):
        result = session.evaluate_features({"x": pictures, **outputs}).outputs["y"]
        for frame, picture in zip(result, pictures, strict=True):
            back = SoftwareBitmap.convert(frame.software_bitmap, RGB8)
            np.testing.assert_array_equal(back.to_numpy(), picture.to_numpy())


def test_batches_on_several_threads() -> None:
    model = identity(("n", 3, 300, 400), metadata=ImageContract.imagenet().to_metadata())
    pictures = [bitmap("BGRA8", 400, 300, seed) for seed in range(5)]
    together = LearningModelSession(model).evaluate_features({"x": pictures}).outputs["y"].to_numpy()
    for picture, part in zip(pictures, together, strict=True):
        out = np.zeros((3, 300, 400), np.float32)
        tensorize(picture, ImageContract.imagenet(), out)
        np.testing.assert_array_equal(part, out)


def test_values_are_bound_again_with_another_contract() -> None:
    binding = LearningModelBinding(LearningModelSession(identity((1, 3, 4, 4))))
    value = ImageFeatureValue.from_array(np.full((4, 4, 3), 100, np.uint8), RGB8)
    for contract, expected in ((ImageContract(RGB8), 100), (ImageContract(RGB8, mean=(100,)), 0)):
        binding.bind("x", value, {"ImageContract": contract})
        assert (binding._session.evaluate(binding).outputs["y"].to_numpy() == expected).all()
