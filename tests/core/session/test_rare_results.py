"""Rare inputs and outputs of an evaluation, and rare pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers import damaged_files
from helpers.models import STRING, unary
from helpers.paths import PICTURES
from helpers.pictures import encode
from helpers.sessions import bind_all, open_session
from winml_py import (
    BitmapAlphaMode,
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    ImageKernel,
    ImageRounding,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    SoftwareBitmap,
    TensorFloat,
    TensorString,
    VideoFrame,
)
from winml_py.scaling import CropRatio, Ends, Fit

# Results


@pytest.mark.parametrize("pixel_format", [BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8])
def test_a_cropped_gray_picture_for_a_colour_model(pixel_format: BitmapPixelFormat) -> None:
    """Cropped and not scaled: the pixels are no memory in a row."""
    gray = np.arange(48, dtype=np.uint8).reshape(6, 8)
    picture = ImageFeatureValue.from_array(gray, BitmapPixelFormat.GRAY8)
    session = LearningModelSession(LearningModel.load(unary(shape=(1, 3, 6, 6))))
    binding = LearningModelBinding(session)
    binding.bind("x", picture, {"ImageContract": ImageContract(pixel_format)})
    result = session.evaluate(binding).outputs["y"].to_numpy()
    np.testing.assert_array_equal(result, np.broadcast_to(gray[:, 1:7].astype(np.float32), (1, 3, 6, 6)))


@pytest.mark.parametrize("pixel_format", [BitmapPixelFormat.NV12, BitmapPixelFormat.P010, BitmapPixelFormat.YUY2])
def test_an_odd_size_cannot_become_video(pixel_format: BitmapPixelFormat) -> None:
    odd = SoftwareBitmap(BitmapPixelFormat.BGRA8, 5, 3)
    with pytest.raises(InvalidArgumentError):
        SoftwareBitmap.convert(odd, pixel_format)


def test_an_output_of_words_that_is_bound_no_more_leaves_the_old_array_alone() -> None:
    session, binding = bind_all(unary("Identity", [2], STRING), x=np.array(["a", "b"], object))
    first = TensorString.create((2,))
    binding.bind("y", first)
    session.evaluate(binding)
    second = TensorString.create()
    binding.bind("y", second)
    binding.bind("x", np.array(["c", "d"], object))
    session.evaluate(binding)
    assert (first.to_numpy().tolist(), second.to_numpy().tolist()) == (["a", "b"], ["c", "d"])


def test_an_image_contract_is_the_way_out_of_metadata_that_nobody_can_keep_to() -> None:
    metadata = {"Image.ColorSpaceGamma": "Linear"}
    session, binding = bind_all(unary(shape=(1, 3, 2, 2), denotation="IMAGE", metadata=metadata))
    picture = ImageFeatureValue.from_array(np.full((2, 2, 3), 7, np.uint8), BitmapPixelFormat.RGB8)
    with pytest.raises(InvalidBindingError):
        binding.bind("x", picture)
    binding.bind("x", picture, {"ImageContract": ImageContract()})
    assert (session.evaluate(binding).outputs["y"].to_numpy() == 7).all()


# Pictures


def levels(height: int, width: int, channels: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)


GRAY = levels(12, 16)[..., 0]


@pytest.mark.parametrize(("mode", "alpha"), [("RGBA", 7), ("RGB", None)])
def test_a_profile_changes_colours_and_not_alpha(mode: str, alpha: int | None) -> None:
    """A straight tone curve: level 55 of light is level 128 of sRGB; white, black and alpha stay."""
    image = Image.new("RGBA", (4, 4), (55, 55, 55, 7)).convert(mode)
    bitmap = SoftwareBitmap.load(encode(image, "PNG", icc_profile=damaged_files.make_linear_profile()))
    pixels = bitmap.to_numpy().reshape(16, -1)
    colours = pixels[:, :3]
    assert np.abs(colours.astype(int) - 128).max() <= 1
    assert (alpha is None) == (pixels.shape[1] != 4)
    if alpha is not None:
        assert (pixels[:, 3] == alpha).all()


@pytest.mark.parametrize("opacity", [0, 1, 100, 254, 255])
def test_colours_are_multiplied_by_alpha_and_divided(opacity: int) -> None:
    pixels = np.concatenate([levels(4, 5), np.full((4, 5, 1), opacity, np.uint8)], axis=2)
    straight = SoftwareBitmap.from_array(pixels, BitmapPixelFormat.BGRA8, BitmapAlphaMode.STRAIGHT)
    multiplied = SoftwareBitmap.convert(straight, BitmapPixelFormat.BGRA8, BitmapAlphaMode.PREMULTIPLIED)
    expected = np.rint(pixels[..., :3] * (opacity / 255))
    np.testing.assert_array_equal(multiplied.to_numpy()[..., :3], expected)
    back = SoftwareBitmap.convert(multiplied, BitmapPixelFormat.BGRA8, BitmapAlphaMode.STRAIGHT).to_numpy()
    np.testing.assert_array_equal(back[..., :3], np.minimum(np.rint(expected * (255 / max(opacity, 1))), 255))
    assert (back[..., 3] == opacity).all()
    np.testing.assert_array_equal(straight.to_numpy(), pixels)


def test_video_bytes_are_copied_by_their_colours() -> None:
    """Of one size: the bytes of NV12 are no rows of pixels, and are converted on the way."""
    flat = SoftwareBitmap.from_array(np.full((4, 4, 3), (200, 60, 10), np.uint8), BitmapPixelFormat.RGB8)
    video = VideoFrame.create_with_software_bitmap(SoftwareBitmap.convert(flat, BitmapPixelFormat.NV12))
    target = VideoFrame(BitmapPixelFormat.RGB8, 4, 4)
    video.copy_to(target)
    assert np.abs(target.software_bitmap.to_numpy().astype(int) - (200, 60, 10)).max() <= 3


@pytest.mark.parametrize("make", [lambda: SoftwareBitmap.from_array(GRAY, BitmapPixelFormat.GRAY8), TensorFloat])
def test_numpy_decides_on_the_type(make: Any) -> None:
    value = TensorFloat.from_numpy(np.float32([1.5])) if make is TensorFloat else make()
    assert np.asarray(value, np.float64).dtype == value.__array__(np.float64).dtype == np.float64
    assert not np.shares_memory(value.__array__(copy=True), value.to_numpy())
    np.testing.assert_array_equal(np.asarray(value, np.int16), value.to_numpy().astype(np.int16))
    with pytest.raises(ValueError, match="copy"):
        np.array(value, np.float64, copy=False)


# Contracts


def test_the_contracts_of_families_of_models() -> None:
    """torchvision's, Keras', Ultralytics' and OpenAI's own numbers."""
    rgb, unit = BitmapPixelFormat.RGB8, LearningModelPixelRange.ZERO_TO_ONE
    clip = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
    linear = ImageKernel.ANTIALIASED_LINEAR
    crop = CropRatio(0.875, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN))
    imagenet = ImageContract(rgb, unit, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), kernel=linear, scaling=crop)
    letterbox = ImageContract(rgb, unit, scaling=Fit(), kernel=ImageKernel.LINEAR, pad=(114,) * 3)
    center = CropRatio(1.0, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN))
    assert ImageContract.clip() == ImageContract(rgb, unit, *clip, scaling=center)
    assert ImageContract.imagenet() == imagenet
    assert ImageContract.yolo() == letterbox
    symmetric = LearningModelPixelRange.MINUS_ONE_TO_ONE
    assert ImageContract.inception() == ImageContract(rgb, symmetric, kernel=linear)


@pytest.mark.parametrize("side", [224, 336])
@pytest.mark.parametrize("size", [(451, 300), (243, 381), (640, 359)])
def test_clip_scales_the_shorter_side_and_then_crops(side: int, size: tuple[int, int]) -> None:
    """As OpenAI's code does: Resize(side, bicubic), whose longer side is cut off, CenterCrop(side), Normalize."""
    picture = Image.open(PICTURES / "cat.jpg").convert("RGB").resize(size)
    scaled = [int(side * length / min(size)) for length in size]
    left, top = (round((length - side) / 2) for length in scaled)
    cropped = picture.resize(scaled, Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))
    session = open_session(unary(shape=(1, 3, side, side)))
    contract = replace(ImageContract.clip(), exact=True)
    result = next(session.evaluate_many([picture], contract=contract))
    levels = (result["y"].to_numpy()[0].transpose(1, 2, 0) * contract.std + contract.mean) * 255
    np.testing.assert_allclose(levels, np.asarray(cropped), atol=0.01)
