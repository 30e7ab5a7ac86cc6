"""Cases in which a changed line of the package was noticed by no test: results, crashes, closing, error classes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers import reference
from helpers.models import FLOAT, STRING, data, tensor, unary
from helpers.pictures import encode
from helpers.sessions import bind_all
from tools import mutations
from winml_py import (
    BitmapAlphaMode,
    BitmapBounds,
    BitmapPixelFormat,
    ClosedError,
    ImageContract,
    ImageCropMode,
    ImageFeatureValue,
    ImageKernel,
    ImageRounding,
    ImageScaling,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    PictureError,
    SoftwareBitmap,
    TensorFloat,
    TensorKind,
    TensorLayout,
    TensorString,
    VideoFrame,
)
from winml_py.core.base.winrt_object import inside
from winml_py.core.cache import answers, folders
from winml_py.errors import IllegalCallError, ModelVersionError
from winml_py.winrt.windows.graphics.imaging import BitmapBufferAccessMode

# Results


def test_an_empty_list_bound_to_a_tensor_output_is_filled() -> None:
    found: list[float] = []
    session, binding = bind_all(unary("Neg", [2]), x=np.float32([1, 2]), y=found)
    session.evaluate(binding)
    assert found == [-1, -2]


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


@pytest.mark.parametrize("size", [(4000, 500), (500, 4000), (3000, 1000)])
def test_fast_decoding_of_panoramas_is_near_the_exact_way(size: tuple[int, int]) -> None:
    """The side that shrinks less decides how far the file may be reduced."""
    y, x = np.mgrid[0 : size[1], 0 : size[0]]
    levels = np.stack([128 + 100 * np.sin(x / 23), 128 + 100 * np.cos(y / 31), (x + y) / 40 % 256], 2).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", quality=95)
    tensors = []
    for fast in (False, True):
        session = LearningModelSession(LearningModel.load(unary(shape=(1, 3, 96, 96))))
        binding = LearningModelBinding(session)
        contract = ImageContract(crop_mode=ImageCropMode.STRETCH)
        binding.bind("x", ImageFeatureValue.load(file.getvalue(), fast_decode=fast), {"ImageContract": contract})
        tensors.append(session.evaluate(binding).outputs["y"].to_numpy())
    assert float(np.abs(tensors[0] - tensors[1]).mean()) < 2.5


def test_defaults() -> None:
    assert BitmapBounds() == (0, 0, 0, 0)
    assert ImageContract().pad == (0, 0, 0)
    session, binding = bind_all(unary("Neg", [1]), x=np.float32([1]))
    assert session.evaluate(binding).correlation_id == ""
    assert session.evaluate(binding, "mine").correlation_id == "mine"


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


def test_a_dict_bound_to_an_output_loses_its_old_keys() -> None:
    scalar = helper.make_tensor_type_proto(FLOAT, [])
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["cat", "dog"])
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(STRING, scalar))
    whole = data([node], [tensor("x", [None, 2])], [helper.make_value_info("y", kind)], domains={"ai.onnx.ml": 1})
    found: list[dict[str, float]] = []
    session, binding = bind_all(whole, x=np.float32([[1, 2]]), y=found)
    for _ in range(2):
        session.evaluate(binding)
        assert found == [{"cat": 1, "dog": 2}]


def test_an_image_contract_is_the_way_out_of_metadata_that_nobody_can_keep_to() -> None:
    metadata = {"Image.ColorSpaceGamma": "Linear"}
    session, binding = bind_all(unary(shape=(1, 3, 2, 2), denotation="IMAGE", metadata=metadata))
    picture = ImageFeatureValue.from_array(np.full((2, 2, 3), 7, np.uint8), BitmapPixelFormat.RGB8)
    with pytest.raises(InvalidBindingError):
        binding.bind("x", picture)
    binding.bind("x", picture, {"ImageContract": ImageContract()})
    assert (session.evaluate(binding).outputs["y"].to_numpy() == 7).all()


# Memory that is closed, read-only, or not in a row


def test_a_closed_tensor_that_has_memory_is_no_output() -> None:
    closed = TensorFloat.from_numpy(np.zeros(2, np.float32))
    session, binding = bind_all(unary("Neg", [2]), x=np.float32([1, 2]), y=closed)
    closed.close()
    with pytest.raises(IllegalCallError, match="has been closed"):
        session.evaluate(binding)


@pytest.mark.parametrize("is_read_only", [True, False])
def test_an_output_that_cannot_be_written_is_an_error_of_binding(is_read_only: bool) -> None:
    memory = np.zeros((2, 3), np.float32)
    memory.flags.writeable = not is_read_only
    _, binding = bind_all(unary("Neg", [3, 2] if not is_read_only else [2, 3]))
    with pytest.raises(InvalidBindingError) as info:
        binding.bind("y", memory if is_read_only else memory.T)
    assert info.value.hresult == InvalidBindingError("").hresult


@pytest.mark.parametrize("copy", [True, False, None])
def test_numpy_decides_whether_a_tensor_is_copied(copy: bool | None) -> None:
    memory = np.zeros(2, np.float32)
    array = np.array(TensorFloat.from_numpy(memory), copy=copy)
    assert np.shares_memory(array, memory) is (copy is not True)


# Closing


def test_with_closes_a_session_and_a_stream_lets_go_of_its_bindings() -> None:
    with LearningModelSession(LearningModel.load(unary("Neg", [1]))) as session:
        stream = session.evaluate_many([np.float32([1])])
        assert next(stream).succeeded
        stream.close()
        assert not stream._jobs.runner._bindings
        binding = LearningModelBinding(session)
    for use in (lambda: session.evaluate(binding), lambda: binding.bind("x", np.float32([1]))):
        with pytest.raises(ClosedError):
            use()
    assert inside(binding).compiled.is_closed


# Caches


def test_a_cache_without_a_folder_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(answers.ENVIRONMENT, str(tmp_path / "nowhere"))
    assert (answers.clear(), folders.clear(), answers.entries(), folders.entries()) == (0, 0, [], [])
    assert not (tmp_path / "nowhere").exists()


def test_a_limit_that_is_no_number_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folders.LIMIT_VARIABLE, "much")
    assert folders.limit() == folders.LIMIT


def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(answers.ENVIRONMENT, str(tmp_path))
    folder = tmp_path / ("0" * answers.KEY_LENGTH)
    folders.start(folder, "m.onnx")
    (folder / "graph.onnx").write_bytes(b"graph")
    folders.seal(folder)
    assert folders.is_intact(folder)
    return folder


def test_a_saved_model_of_another_schema_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path, monkeypatch)
    manifest = folder / "manifest.json"
    facts = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(facts | {"schema_version": answers.SCHEMA + 1}))
    assert not folders.is_intact(folder)


@pytest.mark.parametrize("text", ["{", "[]", "7", "null", '{"schema_version": 1, "model": 3}'])
def test_a_folder_with_a_broken_manifest_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    folder = saved(tmp_path, monkeypatch)
    (folder / "manifest.json").write_text(text)
    assert folders.entries() == []
    assert folders.clear() == 0
    assert not folders.is_intact(folder)
    with pytest.raises(FileExistsError, match="no manifest of winml-py"):
        folders.start(folder)
    assert (folder / "graph.onnx").read_bytes() == b"graph"


def test_what_cannot_be_removed_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, monkeypatch)

    def refuse(*_: object) -> None:
        raise OSError("busy")

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", refuse)
        assert folders.clear() == 0
    assert folders.clear() == 1


# Errors


def test_a_model_of_a_later_ir_version_has_windows_mls_code() -> None:
    with pytest.raises(ModelVersionError) as info:
        LearningModelSession(LearningModel.load(unary("Neg", [1], ir_version=99)))
    assert info.value.hresult == 0x80004005


def test_the_reference_is_there() -> None:
    """The slow reference crops as the test above says."""
    assert reference.center_crop(8, 6, 6, 6) == (1, 0, 6, 6)


# Pictures


def levels(height: int, width: int, channels: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)


GRAY = levels(12, 16)[..., 0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_gray_file_stays_gray(kind: str, tmp_path: Path) -> None:
    file = encode(Image.fromarray(GRAY), kind)
    bitmap = SoftwareBitmap.load(file)
    assert (bitmap.bitmap_pixel_format, bitmap.to_numpy().shape) == (BitmapPixelFormat.GRAY8, (12, 16))
    with Image.open(io.BytesIO(file)) as image:
        np.testing.assert_array_equal(bitmap.to_numpy(), np.asarray(image))
    path = tmp_path / f"gray.{kind.lower()}"
    bitmap.save(path)
    with Image.open(path) as image:
        assert (image.mode, image.format) == ("L", kind)


@pytest.mark.parametrize(("mode", "alpha"), [("RGBA", 7), ("RGB", None)])
def test_a_profile_changes_colours_and_not_alpha(mode: str, alpha: int | None) -> None:
    """A straight tone curve: level 55 of light is level 128 of sRGB; white, black and alpha stay."""
    image = Image.new("RGBA", (4, 4), (55, 55, 55, 7)).convert(mode)
    bitmap = SoftwareBitmap.load(encode(image, "PNG", icc_profile=mutations.profile_with_gamma_1()))
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


def test_a_part_of_a_frame_goes_to_a_part_of_another() -> None:
    source = VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_array(levels(6, 8), BitmapPixelFormat.RGB8))
    expected = np.zeros((6, 8, 4), np.uint8)
    expected[..., 3] = 255
    expected[3:5, 4:7, :3] = levels(6, 8)[1:3, 2:5]
    for copy in (VideoFrame.copy_to, lambda *arguments: VideoFrame.copy_to_async(*arguments).get()):
        target = VideoFrame(BitmapPixelFormat.RGBA8, 8, 6)
        target.software_bitmap.to_numpy()[..., 3] = 255
        copy(source, target, BitmapBounds(2, 1, 3, 2), BitmapBounds(4, 3, 3, 2))
        np.testing.assert_array_equal(target.software_bitmap.to_numpy(), expected)


def test_video_bytes_are_copied_by_their_colours() -> None:
    """Of one size: the bytes of NV12 are no rows of pixels, and are converted on the way."""
    flat = SoftwareBitmap.from_array(np.full((4, 4, 3), (200, 60, 10), np.uint8), BitmapPixelFormat.RGB8)
    video = VideoFrame.create_with_software_bitmap(SoftwareBitmap.convert(flat, BitmapPixelFormat.NV12))
    target = VideoFrame(BitmapPixelFormat.RGB8, 4, 4)
    video.copy_to(target)
    assert np.abs(target.software_bitmap.to_numpy().astype(int) - (200, 60, 10)).max() <= 3


def test_a_picture_shows_what_it_is() -> None:
    frame = VideoFrame(BitmapPixelFormat.BGRA8, 4, 3)
    file = ImageFeatureValue.load(encode(Image.fromarray(GRAY), "JPEG"), fast_decode=True)
    assert repr(ImageFeatureValue.create_from_video_frame(frame)) == "<ImageFeatureValue BGRA8 4x3>"
    assert repr(ImageFeatureValue([frame, frame])) == "<ImageFeatureValue 2 x BGRA8 4x3>"
    assert repr(file) == "<ImageFeatureValue file 16x12>"


def test_a_picture_is_saved_and_a_limit_holds(tmp_path: Path) -> None:
    file = encode(Image.fromarray(GRAY), "PNG")
    ImageFeatureValue.load(file).save(tmp_path / "gray.png")
    np.testing.assert_array_equal(SoftwareBitmap.load(tmp_path / "gray.png").to_numpy(), GRAY)
    assert ImageFeatureValue.load(file, max_pixels=192).sizes == ((16, 12),)
    for fast in (False, True):
        with pytest.raises(PictureError, match="16x12 pixels, and 191 are allowed"):
            ImageFeatureValue.load(file, max_pixels=191, fast_decode=fast)


def test_the_memory_of_a_bitmap() -> None:
    bitmap = SoftwareBitmap(BitmapPixelFormat.BGRA8, 4, 3)
    with bitmap.lock_buffer(BitmapBufferAccessMode.READ_WRITE) as buffer:
        assert buffer.get_plane_count() == 1
        assert tuple(buffer.get_plane_description(0)) == (0, 4, 3, 16)
        memoryview(buffer.create_reference())[5] = 9
    assert bitmap.to_numpy()[0, 1, 1] == 9
    for use in (buffer.get_plane_count, buffer.create_reference, lambda: buffer.get_plane_description(0)):
        with pytest.raises(ClosedError, match=r"The bitmap buffer has been closed\. Lock the bitmap again\."):
            use()
    with bitmap.lock_buffer(BitmapBufferAccessMode.READ) as buffer:
        assert memoryview(buffer.create_reference()).readonly


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
    crop = ImageScaling(crop_ratio=0.875, crop_rounding=ImageRounding.HALF_EVEN)
    imagenet = ImageContract(rgb, unit, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), kernel=linear, scaling=crop)
    letterbox = ImageContract(rgb, unit, crop_mode=ImageCropMode.LETTERBOX, kernel=ImageKernel.LINEAR, pad=(114,) * 3)
    assert ImageContract.clip() == ImageContract(rgb, unit, *clip)
    assert ImageContract.imagenet() == imagenet
    assert ImageContract.yolo() == letterbox
    symmetric = LearningModelPixelRange.MINUS_ONE_TO_ONE
    assert ImageContract.inception() == ImageContract(rgb, symmetric, kernel=linear)


def test_a_contract_in_one_line() -> None:
    assert ImageContract().describe() == "BGR8, zero_to255"
    assert ImageContract.yolo().describe() == ("RGB8, zero_to_one, letterbox, linear, pad 114 114 114")
    odd = ImageContract(
        BitmapPixelFormat.RGB8, mean=(1, 2, 3), std=(4, 5, 6), layout=TensorLayout.NHWC, tensor_kind=TensorKind.UINT8
    )
    assert odd.describe() == "RGB8, zero_to255, mean 1 2 3, std 4 5 6, NHWC, uint8"
