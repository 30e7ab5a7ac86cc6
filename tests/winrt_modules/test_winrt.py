"""What `winml_py.winrt` adds: storage, streams, codecs; WinRT's names on the classes of winml_py."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.paths import PICTURES
from helpers.pictures import encode
from helpers.profiles import gamma, gray_profile
from winml_py import (
    BitmapAlphaMode,
    BitmapPixelFormat,
    ClosedError,
    CustomOperator,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidDeviceError,
    LearningModel,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    LearningModelSessionOptions,
    NotSupportedError,
    PictureError,
    SoftwareBitmap,
    TensorFloat,
    TensorString,
    VideoFrame,
)
from winml_py.errors import (
    IllegalCallError,
    NotBoundError,
    StorageAccessError,
    StorageExistsError,
    StorageNotFoundError,
)
from winml_py.results import AsyncOperation
from winml_py.winrt.runtime import ApartmentType, init_apartment, uninit_apartment
from winml_py.winrt.system import Array, Boolean, Double, Object, Single, String, UInt8, UInt32, box_int32, unbox_int32
from winml_py.winrt.windows.ai import machinelearning
from winml_py.winrt.windows.ai.machinelearning import ILearningModelOperatorProvider
from winml_py.winrt.windows.foundation import AsyncStatus, PropertyType
from winml_py.winrt.windows.foundation.collections import PropertySet
from winml_py.winrt.windows.graphics.imaging import (
    BitmapBounds,
    BitmapBufferAccessMode,
    BitmapDecoder,
    BitmapEncoder,
    BitmapFlip,
    BitmapInterpolationMode,
    BitmapPropertySet,
    BitmapRotation,
    BitmapTransform,
    BitmapTypedValue,
    ColorManagementMode,
    ExifOrientationMode,
)
from winml_py.winrt.windows.storage import (
    CreationCollisionOption,
    FileAccessMode,
    StorageFile,
    StorageFolder,
)
from winml_py.winrt.windows.storage.streams import (
    Buffer,
    InMemoryRandomAccessStream,
    IRandomAccessStream,
    RandomAccessStreamReference,
)

RGBA16 = BitmapPixelFormat.RGBA16
BGRA8, RGBA8, GRAY8 = BitmapPixelFormat.BGRA8, BitmapPixelFormat.RGBA8, BitmapPixelFormat.GRAY8
STRAIGHT, PREMULTIPLIED = BitmapAlphaMode.STRAIGHT, BitmapAlphaMode.PREMULTIPLIED


def stream_of(data: bytes) -> IRandomAccessStream:
    return IRandomAccessStream(io.BytesIO(data))


def noise(width: int, height: int, channels: int = 3) -> np.ndarray:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


def decoder_of(data: bytes) -> BitmapDecoder:
    return BitmapDecoder.create_async(stream_of(data)).get()


# Arrays, values, maps


def test_arrays() -> None:
    for kind, elements, dtype in (
        (Single, [1, 2.5], "float32"),
        ("f", [1, 2.5], "float32"),
        (Double, (1.5, 2.0), "float64"),
        (UInt8, b"\x01\x02", "uint8"),
        ("I", range(3), "uint32"),
        (Boolean, [True, False], "bool"),
        (String, ["a", ""], "object"),
        (UInt32, np.arange(4).reshape(2, 2), "uint32"),
    ):
        array = Array(kind, elements)
        assert (array.dtype, array.ndim) == (dtype, 1)
        assert array == list(np.asarray(list(elements), dtype).reshape(-1))
        assert array != [*array, 0]
    zeros = Array(Single, 3)
    zeros[1] = 2
    assert bytes(memoryview(zeros)) == np.array([0, 2, 0], np.float32).tobytes()
    assert Array(String, 2) == ["", ""]
    assert TensorFloat.create_from_array([3], zeros).get_as_vector_view() == [0, 2, 0]
    source = bytearray(b"ab")
    copy = Array(UInt8, source)
    source[0] = 0
    assert copy == [97, 98]


def test_property_sets() -> None:
    properties = PropertySet()
    assert properties.insert("a", 1) is False
    assert properties.insert("a", 2) is True
    properties["b"] = None
    assert properties.lookup("a") == 2
    assert properties.has_key("b")
    assert not properties.has_key("A")
    assert properties.size == 2
    pair = next(properties.first())
    assert (pair.key, pair.value) == ("a", 2)
    view = properties.get_view()
    properties.remove("a")
    assert dict(properties) == {"b": None}
    assert view == {"a": 2, "b": None}
    with pytest.raises(NotBoundError, match="no key 'a'"):
        properties.lookup("a")
    properties.clear()
    assert properties.size == 0


@pytest.fixture
def digits_path() -> Path:
    return PICTURES.parent.parent / "models" / "digits.onnx"


def test_apartments_are_nothing() -> None:
    init_apartment(ApartmentType.SINGLE_THREADED)
    uninit_apartment()


# Operations


def test_waiting_for_an_operation() -> None:
    go = threading.Event()
    operation = AsyncOperation(lambda _: go.wait(10))
    assert operation.wait(0.01) is AsyncStatus.STARTED
    go.set()
    assert operation.wait() is AsyncStatus.COMPLETED


def test_the_completed_callback() -> None:
    called, calls = threading.Event(), []

    def handler(operation: AsyncOperation, status: AsyncStatus) -> None:
        calls.append((operation, status))
        called.set()

    operation = AsyncOperation(lambda _: 1)
    assert operation.completed is None
    operation.completed = handler
    assert called.wait(10)
    assert calls == [(operation, AsyncStatus.COMPLETED)]
    with pytest.raises(IllegalCallError, match="already has a callback"):
        operation.completed = handler
    assert operation.id == operation.id != AsyncOperation(lambda _: 2).id


# Devices and models


def test_pywinrt_2_s_spellings() -> None:
    kinds = LearningModelDeviceKind
    assert kinds.DIRECT_X is kinds.DIRECTX
    assert kinds.DIRECT_X_HIGH_PERFORMANCE is kinds.DIRECTX_HIGH_PERFORMANCE
    assert kinds.DIRECT_X_MIN_POWER is kinds.DIRECTX_MIN_POWER
    assert [kind.value for kind in kinds] == [0, 1, 2, 3, 4]
    device = LearningModelDevice(kinds.CPU)
    assert device.direct3_d11_device is device.direct3d11_device is None
    with pytest.raises(InvalidDeviceError, match="Direct3D devices are not supported"):
        LearningModelDevice.create_from_direct3_d11_device(None)


def test_models_load_with_an_operator_provider(digits_path: Path) -> None:
    class Provider(ILearningModelOperatorProvider):
        operators = (CustomOperator(np.zeros_like, "Relu", outputs=[(np.float32, None)]),)

    model = machinelearning.LearningModel
    file = StorageFile.get_file_from_path_async(digits_path).get()
    stream = RandomAccessStreamReference.create_from_file(file)
    image = {"image": np.random.default_rng(0).random((1, 1, 28, 28), np.float32)}
    for load in (
        lambda provider: model.load_from_file_path_with_operator_provider(str(digits_path), provider),
        lambda provider: model.load_from_stream_with_operator_provider(stream, provider),
        lambda provider: model.load_from_storage_file_with_operator_provider_async(file, provider).get(),
        lambda provider: model.load_from_stream_with_operator_provider_async(stream, provider).get(),
    ):
        usual, empty, replaced = (load(each) for each in (None, ILearningModelOperatorProvider(), Provider()))
        assert type(usual) is type(replaced) is model
        scores = [
            LearningModelSession(loaded).evaluate_features(image).outputs["probabilities"].to_numpy()
            for loaded in (usual, empty, replaced)
        ]
        np.testing.assert_array_equal(scores[0], scores[1])
        assert not np.allclose(scores[0], scores[2])
        with pytest.raises(InvalidArgumentError, match="object provides no operators"):
            load(object())


def test_shapes_have_winrt_s_names(digits_path: Path) -> None:
    model = LearningModel.load(digits_path)
    for shape in (model.output_features[0].shape, TensorFloat.create([1, 10]).shape):
        assert shape == (1, 10)
        assert (shape.size, shape.get_at(1), shape.index_of(10), shape.index_of(3)) == (2, 10, (True, 1), (False, 0))
        with pytest.raises(InvalidArgumentError, match="Index 2 is out of range: the collection has 2") as info:
            shape.get_at(2)
        assert info.value.hresult == 0x8000000B


def test_an_iterator_that_stands_at_an_element() -> None:
    iterator = TensorString.create_from_array([3], list("abc")).get_as_vector_view().first()
    assert (iterator.has_current, iterator.current) == (True, "a")
    assert iterator.move_next()
    assert iterator.current == "b"
    assert next(iterator) == "b"  # Python's way gives the element that it stands at, and goes on
    assert (iterator.current, iterator.move_next(), iterator.has_current) == ("c", False, False)
    assert not iterator.move_next()
    assert list(iterator) == []
    with pytest.raises(InvalidArgumentError, match="past the last element") as info:
        iterator.current  # noqa: B018
    assert info.value.hresult == 0x8000000B
    assert list(TensorFloat.create_from_array([2], [1.0, 2.0]).get_as_vector_view().first()) == [1.0, 2.0]
    assert [(pair.key, pair.value) for pair in PropertySet({"a": 1}).first()] == [("a", 1)]


def test_objects_are_what_they_are(digits: LearningModelSession) -> None:
    result = digits.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)}, "")
    tensor = result.outputs["probabilities"]
    assert tensor.as_(TensorFloat) is TensorFloat._from(tensor) is tensor.as_(Object) is tensor
    feature = digits.model.input_features[0]
    assert feature.as_(ImageFeatureDescriptor) is feature
    for cast in (
        lambda: tensor.as_(TensorString),
        lambda: TensorString._from(tensor),
        lambda: VideoFrame._from(None),
        lambda: LearningModelSessionOptions().as_(TensorFloat),
    ):
        with pytest.raises(InvalidArgumentError, match="Cannot cast") as refused:
            cast()
        assert refused.value.hresult == 0x80004002
    assert unbox_int32(box_int32(7)) == 7


def test_handlers_may_wait_for_other_operations() -> None:
    done, results = threading.Semaphore(0), []

    def handler(operation: AsyncOperation, status: AsyncStatus) -> None:
        results.append(AsyncOperation(lambda _: operation.get_results() + 1).get(10))
        done.release()

    operations = [AsyncOperation(lambda _, n=n: n) for n in range(40)]
    for operation in operations:
        operation.completed = handler
    assert all(done.acquire(timeout=10) for _ in operations)
    assert sorted(results) == list(range(1, 41))
    operations[0].completed = None


def test_what_the_system_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    folder = StorageFolder.get_folder_from_path_async(tmp_path).get()
    (tmp_path / "inner").mkdir()
    with pytest.raises(StorageAccessError, match=r"inner: (?:Is a directory|Permission denied)\.") as refused:
        folder.create_file_async("inner", CreationCollisionOption.REPLACE_EXISTING).get()
    assert refused.value.winerror == -2147024891
    file = folder.create_file_async("x").get()
    inner = StorageFolder.get_folder_from_path_async(tmp_path / "inner").get()
    (tmp_path / "inner").rmdir()
    with pytest.raises(StorageNotFoundError, match=r"file .*x does not exist"):
        inner.create_file_async("x").get()
    for name in ("", "..", "inner/x", "/etc/hostname"):
        with pytest.raises(InvalidArgumentError, match="is not the name"):
            folder.create_file_async(name).get()
    with pytest.raises(InvalidArgumentError, match="Pass a member of FileAccessMode"):
        file.open_async(7)


def test_wrong_values_are_refused() -> None:
    for elements in ([1.9], [300], np.array([300]), np.array([-1]), [np.int64(256)], ["1"]):
        with pytest.raises(InvalidArgumentError, match=r"uint8 cannot be made .* Choose a type"):
            Array(UInt8, elements)
    assert (Array(UInt8, np.array([True, 255, 0])), Array(UInt8, [])) == ([1, 255, 0], [])
    with pytest.raises(InvalidArgumentError, match="a capacity of 0 bytes or more"):
        Buffer(-1)
    with pytest.raises(NotBoundError):
        PropertySet().remove("a")
    for index in (-1, 4):
        with pytest.raises(InvalidArgumentError) as refused:
            TensorFloat.create([1]).shape.get_at(index)
        assert refused.value.hresult == 0x8000000B
    reader = stream_of(b"abc")
    reader.close()
    with pytest.raises(ClosedError) as closed:
        machinelearning.LearningModel.load_from_stream(reader)
    assert closed.value.hresult == 0x80000013
    for source in (None, 5):
        with pytest.raises(InvalidArgumentError, match="Expected a path"):
            machinelearning.LearningModel.load_from_storage_file_async(source).get()
    with pytest.raises(InvalidArgumentError, match="Expected a VideoFrame"):
        ImageFeatureValue.create_from_video_frame(None)
    view = SoftwareBitmap(BGRA8, 2, 2).get_read_only_view()
    with pytest.raises(InvalidArgumentError, match="read-only"):
        view.copy_from_buffer(bytes(16))
    with pytest.raises(InvalidArgumentError, match="cannot be written to"):
        view.copy_to_buffer(bytes(16))
    buffer = Buffer(20)
    view.copy_to_buffer(buffer)
    assert (buffer.length, len(bytes(buffer))) == (16, 16)
    with pytest.raises(AttributeError):
        BitmapEncoder.create_async(BitmapEncoder.png_encoder_id, reader).get().is_thumbnail_generated = True
    with pytest.raises(NotSupportedError, match="PNG has no encoding option"):
        BitmapEncoder.create_async(BitmapEncoder.png_encoder_id, reader, {"ImageQuality": 0.5}).get()


# The memory of bitmaps


def test_a_locked_bitmap_shares_its_memory() -> None:
    bitmap = SoftwareBitmap(BGRA8, 3, 2)
    with bitmap.lock_buffer(BitmapBufferAccessMode.READ_WRITE) as buffer:
        assert buffer.get_plane_count() == 1
        assert buffer.get_plane_description(0) == (0, 3, 2, 12)
        with buffer.create_reference() as reference:
            assert reference.capacity == 24
            np.frombuffer(reference, np.uint8)[:] = np.arange(24)
        assert reference.capacity == 0
        with pytest.raises(ClosedError):
            reference.get_buffer()
        with pytest.raises(InvalidArgumentError, match="Plane 1 is out of range"):
            buffer.get_plane_description(1)
    np.testing.assert_array_equal(bitmap.to_numpy().ravel(), np.arange(24))
    with pytest.raises(ClosedError, match="Lock the bitmap again"):
        buffer.create_reference()
    with SoftwareBitmap(GRAY8, 2, 2).lock_buffer(BitmapBufferAccessMode.READ) as buffer:
        assert memoryview(buffer.create_reference()).readonly
    with pytest.raises(InvalidArgumentError, match="read-only"):
        SoftwareBitmap(GRAY8, 2, 2).get_read_only_view().lock_buffer(BitmapBufferAccessMode.WRITE)


def test_alpha_stays_where_nothing_else_is_asked_for() -> None:
    source = SoftwareBitmap.from_array(noise(4, 3, 4), RGBA8, STRAIGHT)
    source.dpi_x, source.dpi_y, source.max_pixels = 72.0, 144.0, 100
    for copy in (SoftwareBitmap.copy(source), SoftwareBitmap.convert(source, BGRA8), source.get_read_only_view()):
        assert copy.bitmap_alpha_mode is STRAIGHT
        assert (copy.dpi_x, copy.dpi_y, copy.max_pixels) == (72.0, 144.0, 100)
    ignored = SoftwareBitmap.convert(source, RGBA8, BitmapAlphaMode.IGNORE)
    np.testing.assert_array_equal(ignored.to_numpy(), source.to_numpy())
    assert SoftwareBitmap.load(PICTURES / "cat.jpg").bitmap_alpha_mode is STRAIGHT
    wide = SoftwareBitmap.from_array(np.full((1, 1, 4), (60000, 30000, 0, 32768), np.uint16), RGBA16, STRAIGHT)
    multiplied = SoftwareBitmap.convert(wide, RGBA16, PREMULTIPLIED)
    assert multiplied.to_numpy().tolist() == [[[30000, 15000, 0, 32768]]]
    with pytest.raises(InvalidArgumentError, match=r"alpha mode cannot be 'x'\. Pass a member of BitmapAlphaMode"):
        SoftwareBitmap(BGRA8, 1, 1, "x")
    with pytest.raises(InvalidArgumentError, match="got NoneType"):
        SoftwareBitmap.convert(None, BGRA8)


def test_copies_between_alpha_modes_change_the_colours() -> None:
    source = SoftwareBitmap.from_array(np.full((2, 2, 4), (200, 100, 0, 100), np.uint8), BGRA8, STRAIGHT)
    for target in (SoftwareBitmap(BGRA8, 2, 2), SoftwareBitmap(RGBA8, 2, 2)):
        source.copy_to(target)
        frame = VideoFrame(target.bitmap_pixel_format, 2, 2)
        VideoFrame.create_with_software_bitmap(source).copy_to(frame)
        np.testing.assert_array_equal(frame.software_bitmap.to_numpy(), target.to_numpy())
    assert target.to_numpy()[0, 0].tolist() == [0, 39, 78, 100]


# Decoding


def test_a_decoder_tells_what_it_decodes() -> None:
    decoder = decoder_of(encode(Image.fromarray(noise(5, 4)), "JPEG", dpi=(72, 144)))
    assert (decoder.pixel_width, decoder.pixel_height, decoder.frame_count) == (5, 4, 1)
    bitmap = decoder.get_software_bitmap_async().get()
    assert (decoder.dpi_x, decoder.dpi_y) == (bitmap.dpi_x, bitmap.dpi_y) == (72, 144)
    stream = InMemoryRandomAccessStream()
    encoder = BitmapEncoder.create_async(BitmapEncoder.jpeg_encoder_id, stream).get()
    encoder.set_software_bitmap(bitmap)
    encoder.flush_async().get()
    again = BitmapDecoder.create_async(stream).get()
    assert (again.dpi_x, again.dpi_y) == (72, 144)
    assert decoder_of(encode(Image.fromarray(noise(5, 4)), "TIFF", dpi=(1 << 20, 0))).dpi_x == 96
    bitmap.dpi_x = float("inf")
    encoder.set_software_bitmap(bitmap)
    with pytest.raises(PictureError, match="cannot be written as JPEG"):
        encoder.flush_async().get()
    assert decoder.bitmap_pixel_format is BGRA8
    assert decoder.bitmap_alpha_mode is BitmapAlphaMode.IGNORE
    assert repr(decoder) == "<BitmapDecoder JPEG 5x4>"


@pytest.mark.parametrize(("channels", "pixel_format"), [(1, GRAY8), (3, BGRA8), (4, BGRA8)])
def test_decoding_gives_the_pixels_of_the_file(channels: int, pixel_format: BitmapPixelFormat) -> None:
    pixels = noise(7, 5, channels)
    decoder = decoder_of(encode(Image.fromarray(pixels)))
    bitmap = decoder.get_software_bitmap_async().get()
    assert bitmap.bitmap_pixel_format is pixel_format
    assert bitmap.bitmap_alpha_mode is (STRAIGHT if channels == 4 else BitmapAlphaMode.IGNORE)
    expected = SoftwareBitmap.from_pil(Image.fromarray(pixels))
    np.testing.assert_array_equal(bitmap.to_numpy(), SoftwareBitmap.convert(expected, pixel_format).to_numpy())


@pytest.mark.parametrize(("dtype", "key"), [(np.uint8, 7), (np.uint16, 40000)])
def test_gray_files_with_a_transparent_level(dtype: type, key: int) -> None:
    for options in ({}, {"icc_profile": gray_profile(gamma(1.0))}):
        data = encode(Image.fromarray(np.array([[key, 65]], dtype)), transparency=key, **options)
        decoded = decoder_of(data).get_software_bitmap_async().get()
        assert decoded.bitmap_pixel_format is BGRA8
        for bitmap in (decoded, SoftwareBitmap.load(data)):
            assert bitmap.to_numpy()[..., 3].tolist() == [[0, 255]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_the_picture_unless_it_is_ignored(orientation: int) -> None:
    from PIL import ImageOps

    original = Image.fromarray(noise(6, 4))
    exif = original.getexif()
    exif[0x0112] = orientation
    decoder = decoder_of(encode(original, exif=exif))
    with Image.open(io.BytesIO(encode(original, exif=exif))) as image:
        expected = np.asarray(ImageOps.exif_transpose(image).convert("RGBA"))
    turned = decoder.get_software_bitmap_async(RGBA8, STRAIGHT).get()
    np.testing.assert_array_equal(turned.to_numpy(), expected)
    assert (decoder.oriented_pixel_width, decoder.oriented_pixel_height) == expected.shape[1::-1]
    ignored = decoder.get_pixel_data_async(
        RGBA8,
        STRAIGHT,
        BitmapTransform(),
        ExifOrientationMode.IGNORE_EXIF_ORIENTATION,
        ColorManagementMode.DO_NOT_COLOR_MANAGE,
    ).get()
    assert ignored.detach_pixel_data() == list(np.asarray(original.convert("RGBA")).ravel())


def test_a_transform_scales_then_flips_then_turns_then_crops() -> None:
    original = Image.fromarray(noise(8, 6))
    decoder = decoder_of(encode(original))
    for mode, resampling in (
        (BitmapInterpolationMode.NEAREST_NEIGHBOR, Image.Resampling.NEAREST),
        (BitmapInterpolationMode.LINEAR, Image.Resampling.BILINEAR),
        (BitmapInterpolationMode.CUBIC, Image.Resampling.BICUBIC),
        (BitmapInterpolationMode.FANT, Image.Resampling.BOX),
    ):
        transform = BitmapTransform()
        transform.scaled_width, transform.scaled_height = 4, 3
        transform.interpolation_mode = mode
        transform.flip, transform.rotation = BitmapFlip.HORIZONTAL, BitmapRotation.CLOCKWISE90_DEGREES
        transform.bounds = BitmapBounds(1, 1, 2, 3)
        bitmap = decoder.get_software_bitmap_async(RGBA8, STRAIGHT, transform).get()
        scaled = np.asarray(original.resize((4, 3), resampling))
        np.testing.assert_array_equal(bitmap.to_numpy()[..., :3], np.rot90(scaled[:, ::-1], -1)[1:4, 1:3])
    upside_down = BitmapTransform()
    upside_down.scaled_width, upside_down.flip = 3, BitmapFlip.VERTICAL
    bitmap = decoder.get_software_bitmap_async(RGBA8, STRAIGHT, upside_down).get()
    scaled = np.asarray(original.resize((3, 6), Image.Resampling.NEAREST))
    np.testing.assert_array_equal(bitmap.to_numpy()[..., :3], scaled[::-1])


def test_bad_transforms() -> None:
    decoder = decoder_of(encode(Image.fromarray(noise(4, 4))))
    outside, negative = BitmapTransform(), BitmapTransform()
    outside.bounds = BitmapBounds(2, 2, 4, 4)
    negative.scaled_width = -3
    with pytest.raises(InvalidArgumentError, match="do not lie inside"):
        decoder.get_software_bitmap_async(RGBA8, STRAIGHT, outside).get()
    negative.interpolation_mode = 9
    with pytest.raises(InvalidArgumentError, match="interpolation mode cannot be 9"):
        decoder.get_software_bitmap_async(RGBA8, STRAIGHT, negative).get()
    negative.interpolation_mode = BitmapInterpolationMode.CUBIC
    with pytest.raises(InvalidArgumentError, match="cannot be scaled"):
        decoder.get_software_bitmap_async(RGBA8, STRAIGHT, negative).get()


def test_the_frames_of_an_animation() -> None:
    frames = [Image.new("RGB", (4, 3), colour) for colour in ("red", "lime", "blue")]
    decoder = decoder_of(encode(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert decoder.frame_count == 3
    for index, colour in enumerate([(255, 0, 0), (0, 255, 0), (0, 0, 255)]):
        frame = decoder.get_frame_async(index).get()
        assert tuple(frame.get_software_bitmap_async(RGBA8, STRAIGHT).get().to_numpy()[0, 0, :3]) == colour
    with pytest.raises(InvalidArgumentError, match="no frame 3"):
        decoder.get_frame_async(3).get()


def test_what_is_not_a_picture() -> None:
    with pytest.raises(PictureError, match="not a picture"):
        decoder_of(b"not a picture")
    with pytest.raises(PictureError):
        decoder_of((PICTURES / "cat.jpg").read_bytes()[:3000]).get_software_bitmap_async().get()
    with pytest.raises(InvalidArgumentError, match="Expected a stream, got str"):
        BitmapDecoder.create_async("picture.png").get()


# Encoding


@pytest.mark.parametrize("codec", ["png", "bmp", "tiff"])
def test_what_is_encoded_is_decoded(codec: str) -> None:
    pixels = noise(9, 7, 4)
    stream = InMemoryRandomAccessStream()
    encoder = BitmapEncoder.create_async(getattr(BitmapEncoder, f"{codec}_encoder_id"), stream).get()
    encoder.set_pixel_data(RGBA8, STRAIGHT, 9, 7, 96, 96, pixels.tobytes())
    encoder.flush_async().get()
    decoder = BitmapDecoder.create_async(stream).get()
    assert Image.open(io.BytesIO(stream.clone_stream().read())).format == codec.upper()
    if codec == "bmp":  # Pillow reads no alpha from it
        pixels[..., 3] = 255
    np.testing.assert_array_equal(decoder.get_software_bitmap_async(RGBA8, STRAIGHT).get().to_numpy(), pixels)


def test_premultiplied_colours_are_divided_again() -> None:
    bitmap = SoftwareBitmap.from_array(np.full((1, 1, 4), (50, 25, 10, 128), np.uint8), RGBA8, PREMULTIPLIED)
    stream = InMemoryRandomAccessStream()
    encoder = BitmapEncoder.create_async(BitmapEncoder.png_encoder_id, stream).get()
    encoder.set_software_bitmap(bitmap)
    encoder.flush_async().get()
    written = np.asarray(Image.open(io.BytesIO(stream.get_input_stream_at(0).read())))
    np.testing.assert_allclose(written[0, 0], [100, 50, 20, 128], atol=1)
    size = stream.size
    stream.size = 1 << 20
    encoder.flush_async().get()
    assert stream.size == size  # the file replaces what the stream held


def test_jpeg_quality_and_transform() -> None:
    sizes = []
    for quality in (0.2, 0.95):
        options = BitmapPropertySet()
        options.insert("ImageQuality", BitmapTypedValue(quality, PropertyType.SINGLE))
        stream = InMemoryRandomAccessStream()
        encoder = BitmapEncoder.create_async(BitmapEncoder.jpeg_encoder_id, stream, options).get()
        encoder.set_software_bitmap(SoftwareBitmap.from_array(noise(64, 48), BitmapPixelFormat.RGB8))
        encoder.bitmap_transform.rotation = BitmapRotation.CLOCKWISE270_DEGREES
        encoder.flush_async().get()
        sizes.append(stream.size)
        assert BitmapDecoder.create_async(stream).get().pixel_width == 48
    assert sizes[0] < sizes[1] / 2


def test_encoders_refuse() -> None:
    from uuid import UUID

    stream = InMemoryRandomAccessStream()
    with pytest.raises(NotSupportedError, match="no encoder"):
        BitmapEncoder.create_async(UUID(int=1), stream).get()
    with pytest.raises(NotSupportedError, match="no encoding option 'Shine'"):
        BitmapEncoder.create_async(BitmapEncoder.png_encoder_id, stream, {"Shine": 1}).get()
    with pytest.raises(InvalidArgumentError, match=r"from 0\.0 to 1\.0"):
        BitmapEncoder.create_async(BitmapEncoder.jpeg_encoder_id, stream, {"ImageQuality": 90}).get()
    encoder = BitmapEncoder.create_async(BitmapEncoder.png_encoder_id, stream).get()
    with pytest.raises(IllegalCallError, match="No bitmap was set"):
        encoder.flush_async().get()
    with pytest.raises(InvalidArgumentError, match="holds 3 bytes"):
        encoder.set_pixel_data(RGBA8, STRAIGHT, 1, 1, 96, 96, b"abc")
    assert stream.size == 0


# Storage


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"bb")
    folder = StorageFolder.get_folder_from_path_async(tmp_path).get()
    assert (folder.name, folder.path) == (tmp_path.name, str(tmp_path))
    file = StorageFile.get_file_from_path_async(tmp_path / "b.txt").get()
    assert (file.name, file.path) == ("b.txt", str(tmp_path / "b.txt"))
    with file.open_read_async().get() as stream:
        assert stream.read() == b"bb"
        with pytest.raises(InvalidArgumentError, match="cannot be written to"):
            stream.write(b"c")
    with file.open_async(FileAccessMode.READ_WRITE).get() as stream:
        stream.seek(stream.size)
        stream.write(b"c")
    assert (tmp_path / "b.txt").read_bytes() == b"bbc"
    assert RandomAccessStreamReference.create_from_file(file).read() == b"bbc"
    (tmp_path / "b.txt").unlink()
    with pytest.raises(StorageNotFoundError, match=r"file .* does not exist"):
        file.open_read_async().get()
    with pytest.raises(FileNotFoundError, match=r"file .* does not exist") as missing:
        StorageFile.get_file_from_path_async(tmp_path / "none").get()
    assert missing.value.winerror == -2147024894
    with pytest.raises(StorageNotFoundError, match=r"folder .* does not exist"):
        StorageFolder.get_folder_from_path_async(tmp_path / "none").get()


def test_creating_files(tmp_path: Path) -> None:
    folder = StorageFolder.get_folder_from_path_async(tmp_path).get()
    option = CreationCollisionOption
    file = folder.create_file_async("x.txt").get()
    Path(file.path).write_bytes(b"old")
    with pytest.raises(StorageExistsError, match="already"):
        folder.create_file_async("x.txt", option.FAIL_IF_EXISTS).get()
    assert folder.create_file_async("x.txt", option.REPLACE_EXISTING).get().read() == b""
    for name in ("", "../x.txt", "sub/x.txt"):
        with pytest.raises(InvalidArgumentError, match="is not the name of a file"):
            folder.create_file_async(name).get()
