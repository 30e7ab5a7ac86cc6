"""What the errors of pictures, tensors and bindings say, word for word."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from helpers.models import INT64, STRING, data, tensor, unary
from helpers.sessions import bind_all, open_binding
from winml_py import (
    BitmapAlphaMode,
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    SoftwareBitmap,
    TensorFloat,
    TensorFloat16Bit,
    TensorKind,
    TensorString,
    TensorUInt8Bit,
    VideoFrame,
    VideoReader,
    WinMLError,
)
from winml_py.core.evaluation import outputs
from winml_py.core.features.descriptors import FeatureDescriptor
from winml_py.errors import E_INVALIDARG, E_UNEXPECTED, INVALID_FUNCTION
from winml_py.winrt.windows.graphics.imaging import BitmapBufferAccessMode

UINT8 = TensorProto.UINT8
IN_BYTES = ImageContract(tensor_kind=TensorKind.UINT8)
RGB8, GRAY8, BGRA8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.GRAY8, BitmapPixelFormat.BGRA8


def read_only() -> SoftwareBitmap:
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels.flags.writeable = False
    return SoftwareBitmap.from_array(pixels, BGRA8)


def strided() -> SoftwareBitmap:
    return SoftwareBitmap.from_array(np.zeros((4, 4, 4), np.uint8)[:, ::2], BGRA8)


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 3)).save(file, "PNG")
    return file.getvalue()


def evaluated(model: bytes, **values: Any) -> Any:
    session, bound = bind_all(model, **values)
    return session.evaluate(bound)


def two_outputs() -> bytes:
    nodes = [helper.make_node(operator, ["x"], [name]) for operator, name in (("Neg", "y"), ("Abs", "z"))]
    return data(nodes, [tensor("x", [2])], [tensor("y", [2]), tensor("z", [2])])


def bind_twice() -> Any:
    memory = np.zeros(2, np.float32)
    return evaluated(two_outputs(), x=np.float32([1, 2]), y=memory, z=memory)


def descriptor(model: bytes) -> FeatureDescriptor:
    return LearningModel.load(model).output_features[0]


def closed_image() -> Image.Image:
    image = Image.open(io.BytesIO(png()))
    image.close()
    return image


def container(kind: Any) -> bytes:
    return data([helper.make_node("Identity", ["x"], ["y"])], *([helper.make_value_info(end, kind)] for end in "xy"))


def frames(*sizes: tuple[int, int]) -> ImageFeatureValue:
    return ImageFeatureValue([VideoFrame(BGRA8, *size) for size in sizes])


A_MAP = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(INT64, []))
A_LIST = helper.make_sequence_type_proto(helper.make_tensor_type_proto(INT64, [None]))
COUNTS = data(
    [helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a"])],
    [helper.make_value_info("x", A_MAP)],
    [tensor("y", [None, 1], INT64)],
    domains={"ai.onnx.ml": 1},
)
PICTURES = unary(shape=("n", 3, 2, 2), denotation="IMAGE")
HALVES = unary(shape=(1, 3, 2, 2), element=10)
NUMBERS = np.float32([1, 2])

SAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "bitmap read-only": (
        lambda: read_only().copy_from_buffer(bytearray(16)),
        "The bitmap is read-only. Copy it first: SoftwareBitmap.copy(bitmap).",
    ),
    "buffer read-only": (
        lambda: SoftwareBitmap(BGRA8, 2, 2).copy_to_buffer(bytes(16)),
        "The buffer cannot be written to. Pass a bytearray or a Buffer.",
    ),
    "bitmap of nothing": (
        lambda: SoftwareBitmap.convert("cat", RGB8),  # type: ignore[arg-type]
        "A SoftwareBitmap is converted, not str.",
    ),
    "lock of a view": (
        lambda: strided().lock_buffer(BitmapBufferAccessMode.READ),
        "The bitmap is a view of an array whose rows do not lie one after the other. "
        "Lock a SoftwareBitmap.copy() of it, or use to_numpy().",
    ),
    "lock to write": (
        lambda: read_only().lock_buffer(BitmapBufferAccessMode.WRITE),
        "The bitmap is read-only. Lock it with BitmapBufferAccessMode.READ.",
    ),
    "frame read-only": (
        lambda: VideoFrame(BGRA8, 2, 2).copy_to(VideoFrame.create_with_software_bitmap(read_only())),
        "The destination frame is read-only.",
    ),
    "no picture's name": (
        lambda: SoftwareBitmap(BGRA8, 2, 2).save("picture.txt"),
        "picture.txt: Its name does not end like a picture file that can be written. "
        'Use .png, .jpg or .webp; in Python, save(file, kind="PNG") says the format, too.',
    ),
    "picture from a number": (
        lambda: SoftwareBitmap.load(7),  # type: ignore[arg-type]
        "A picture is loaded from a path, bytes or a binary stream, not from int. "
        "For an array, use from_array; for a Pillow image, from_pil.",
    ),
    "picture that is not there": (
        lambda: SoftwareBitmap.load("nowhere.png"),
        "nowhere.png: There is no such picture. Check the working directory.",
    ),
    "a picture too large": (
        lambda: SoftwareBitmap.load(png(), max_pixels=11),
        f"{len(png())} bytes claims 4x3 pixels, and 11 are allowed. "
        "If that is intended, allow more: load(source, max_pixels=...).",
    ),
    "no picture": (
        lambda: SoftwareBitmap.load(b"words"),
        "5 bytes is not a picture that can be decoded: no decoder knows what it is. "
        "Formats that are read: AVIF, BMP, GIF, ICO, JPEG, JPEG2000, PNG, PPM, QOI, TGA, TIFF, WEBP.",
    ),
    "gray without a range": (
        lambda: SoftwareBitmap.from_pil(Image.new("I", (2, 2))),
        "A Pillow image of mode I has no range, so that white is unknown. "
        'With the number that is white, bind image.point(lambda level: level * 255 / white).convert("L").',
    ),
    "video of a float": (
        lambda: VideoReader(1.5),  # type: ignore[arg-type]
        "A video is read from a path or a camera's number, not 1.5.",
    ),
    "video of True": (lambda: VideoReader(True), "A video is read from a path or a camera's number, not True."),
    "camera -1": (lambda: VideoReader(-1), "There is no camera -1. The first is 0."),
    "camera 9999": (
        lambda: VideoReader(9999),
        "camera 9999 cannot be opened as a video. Is it plugged in, and free?",
    ),
    "video that is not there": (
        lambda: VideoReader("nowhere.mp4"),
        "nowhere.mp4: There is no such video. Check the working directory.",
    ),
    "video of text": (
        lambda: VideoReader(__file__),
        f"{__file__} cannot be opened as a video: it does not begin like one. "
        "Name a video itself: lists, playlists and patterns of other files are not read.",
    ),
    "contract's word": (
        lambda: ImageContract.from_metadata({"Image.Layout": "CHW"}),
        "The model's metadata say Image.Layout is 'CHW'. Known: NCHW, NHWC.",
    ),
    "contract's numbers": (
        lambda: ImageContract.from_metadata({"Image.Mean": "a"}),
        "The model's metadata say Image.Mean is 'a'. Write numbers with commas: 0.485,0.456,0.406.",
    ),
    "contract's std": (
        lambda: ImageContract(std=(0.0,)),
        "A std of 0 cannot be divided by. Leave the std out, or write 1.",
    ),
    "contract's mean": (
        lambda: ImageContract(RGB8, mean=(1.0, 2.0)),
        "The mean of a RGB8 contract is (1.0, 2.0). It is one finite number, or 3: one for each channel.",
    ),
    "contract's padding": (
        lambda: ImageContract(pad=(0, 0, 256)),
        "The pad colour is (0, 0, 256). It is red, green, blue, 0 to 255.",
    ),
    "strings from a buffer": (
        lambda: TensorString.create_from_buffer((1,), b"a"),
        "TensorString cannot be created from IBuffers! Use create_from_array.",
    ),
    "strings as a buffer": (
        lambda: TensorString.create_from_array((1,), ["a"]).get_buffer(),
        "A TensorString has no buffer. Use to_numpy() or get_as_vector_view().",
    ),
    "elements of another type": (
        lambda: TensorFloat.create_from_array((1,), np.array([1], np.int64)),
        "TensorFloat takes float32 elements, not int64. Cast them: array.astype(np.float32).",
    ),
    "elements that are words": (
        lambda: TensorUInt8Bit.create_from_array((1,), [1.5]),
        "TensorUInt8Bit takes uint8 elements: float64 elements came. Pass a flat list or an array.",
    ),
    "elements that do not divide": (
        lambda: TensorFloat.create_from_array((3, -1), [1.0, 2.0]),
        "2 elements cannot fill the shape (3, -1): they do not divide by 3. Check the number of elements.",
    ),
    "a batch of nothing": (
        lambda: ImageFeatureValue.create_from_video_frame(None),  # type: ignore[arg-type]
        "A VideoFrame is wanted, not NoneType.",
    ),
    "float16's range": (
        lambda: open_binding(HALVES).bind("x", np.float32([1, -1e6, 7e4, np.inf] * 3).reshape(1, 3, 2, 2)),
        "The model variable x is float16, and -1e+06 leaves its range of -65504 to 65504. "
        "Scale the numbers as the model expects them.",
    ),
    "another thing than a contract": (
        lambda: open_binding(PICTURES).bind("x", VideoFrame(BGRA8, 2, 2), {"ImageContract": 7}),
        "The property ImageContract is 7. Write ImageContract.imagenet(), or make one.",
    ),
    "bounds that are three": (
        lambda: open_binding(PICTURES).bind("x", VideoFrame(BGRA8, 2, 2), {"BitmapBounds": [0, 0, 2]}),
        "The property BitmapBounds is [0, 0, 2]. It is four whole numbers: x, y, width, height.",
    ),
    "a tensor's channels": (
        lambda: open_binding(PICTURES).bind(
            "x", VideoFrame(BGRA8, 2, 2), {"BitmapPixelFormat": BitmapPixelFormat.NV12}
        ),
        "The property BitmapPixelFormat is NV12; for the channels of a tensor it is RGBA8, BGRA8 or GRAY8. "
        "To say how an array's pixels lie, use ImageFeatureValue.from_array(array, pixel_format).",
    ),
    "properties that are a list": (
        lambda: open_binding(PICTURES).bind("x", VideoFrame(BGRA8, 2, 2), [1]),  # type: ignore[arg-type]
        'The properties of a bind are a mapping, not list. Write {"ImageContract": contract} or '
        '{"BitmapBounds": [0, 0, 224, 224]}, say.',
    ),
    "a closed Pillow image": (
        lambda: SoftwareBitmap.from_pil(closed_image()),
        "The Pillow image cannot be read: Operation on closed image. Keep it open until it is bound.",
    ),
    "pictures of two heights": (
        lambda: open_binding(unary(shape=("n", 3, "h", "w"), denotation="IMAGE")).bind("x", frames((4, 3), (4, 5))),
        "The model variable x takes any size, but pictures of one batch must agree on it; these become 4x3, 4x5. "
        "State a size: ImageContract(size=(height, width)), or scale or crop the pictures first.",
    ),
    "pictures of two widths": (
        lambda: open_binding(unary(shape=("n", 3, "h", "w"), denotation="IMAGE")).bind("x", frames((4, 3), (2, 3))),
        "The model variable x takes any size, but pictures of one batch must agree on it; these become 2x3, 4x3. "
        "State a size: ImageContract(size=(height, width)), or scale or crop the pictures first.",
    ),
    "a set for a picture": (
        lambda: open_binding(PICTURES).bind("x", {1}),
        "The model variable x cannot be bound with the provided type: it expects Image[2x2], and set came. "
        "Bind an ImageFeatureValue, a VideoFrame, a Pillow image or an array.",
    ),
    "a set for a tensor": (
        lambda: open_binding(unary(shape=[2])).bind("x", {1}),
        "The model variable x cannot be bound with the provided type: it expects Float[2,], and set came. "
        "Bind a numpy array, a tensor such as TensorFloat.from_numpy(array), or a list of its elements.",
    ),
    "a set for a sequence": (
        lambda: open_binding(container(A_LIST)).bind("x", {1}),
        "The model variable x cannot be bound with the provided type: it expects Sequence<Int64[-1,]>, and set came. "
        "Bind a list.",
    ),
    "a set for a map": (
        lambda: open_binding(COUNTS).bind("x", {1}),
        "The model variable x cannot be bound with the provided type: it expects Map<String,Int64[]>, and set came. "
        "Bind a dict.",
    ),
    "a map of other values": (
        lambda: open_binding(COUNTS).bind("x", {"a": 1.5}),
        "Model variable x, expects Map<String,Int64[]>, but binding was attempted with an incompatible type "
        "Map<String,Float[]>. Keys, values and elements must be of these types.",
    ),
    "a map of values too large": (
        lambda: open_binding(COUNTS).bind("x", {"a": 2**63}),
        "Model variable x, expects Map<String,Int64[]>, but binding was attempted with an incompatible type "
        "Map<String,Int64[]>. Keys, values and elements must be of these types.",
    ),
    "a sequence of other tensors": (
        lambda: open_binding(container(A_LIST)).bind("x", [NUMBERS]),
        "Model variable x, expects Sequence<Int64[-1,]>, but binding was attempted with an incompatible type "
        "Sequence<Float[2,]>. Keys, values and elements must be of these types.",
    ),
    "a sequence of words": (
        lambda: open_binding(container(A_LIST)).bind("x", [None]),
        "Model variable x, expects Sequence<Int64[-1,]>, but binding was attempted with an incompatible type "
        "Sequence<NoneType>. Keys, values and elements must be of these types.",
    ),
    "bounds beyond 32 bits": (
        lambda: open_binding(PICTURES).bind("x", VideoFrame(BGRA8, 2, 2), {"BitmapBounds": [0, 0, 1 << 32, 1]}),
        "The property BitmapBounds is [0, 0, 4294967296, 1]. It is four whole numbers: x, y, width, height.",
    ),
    "no frame": (
        lambda: ImageFeatureValue.create_from_video_frame("cat"),  # type: ignore[arg-type]
        "A VideoFrame is wanted, not str.",
    ),
    "a shape of -2": (
        lambda: TensorFloat.create((2, -2)),
        "The shape (2, -2) cannot be: sizes are 0 or more, and one may be -1. Write (1, -1), say.",
    ),
    "more elements than the shape": (
        lambda: TensorFloat.create_from_array((1,), [1.0, 2.0]),
        "Argument size (2) exceeds the tensor size (1) of shape (1,). Check the shape; one size may be -1.",
    ),
    "fewer halves than the shape": (
        lambda: TensorFloat16Bit.create_from_array((2,), [1.0]),
        "Argument size (1) is not the tensor size (2) of shape (2,). Check the shape; one size may be -1.",
    ),
    "a picture for three dimensions": (
        lambda: open_binding(unary(shape=(3, 2, 2))).bind("x", VideoFrame(BGRA8, 2, 2)),
        "Model variable x, expects Float[3,2,2,], but binding was attempted with an incompatible type Image[2x2]. "
        "Pictures need a tensor of 4 dimensions: batch, channels, height, width.",
    ),
    "one picture for a batch": (
        lambda: open_binding(unary(shape=(2, 3, 2, 2))).bind("x", VideoFrame(BGRA8, 2, 2)),
        "Model variable x, expects Float[2,3,2,2,], but binding was attempted with an incompatible type Image[2x2]. "
        "The batch is 1, not 2.",
    ),
    "a picture for bytes": (
        lambda: open_binding(unary(shape=(1, 3, 2, 2), element=UINT8)).bind("x", VideoFrame(BGRA8, 2, 2)),
        "Model variable x, expects UInt8[1,3,2,2,], but binding was attempted with an incompatible type Image[2x2]. "
        "Model image inputs must have tensor type of Float or Float16; UInt8 where an ImageContract says so.",
    ),
    "a contract for bytes": (
        lambda: open_binding(unary(shape=(1, 3, 2, 2))).bind(
            "x", VideoFrame(BGRA8, 2, 2), {"ImageContract": ImageContract(tensor_kind=TensorKind.UINT8)}
        ),
        "Model variable x, expects Float[1,3,2,2,], but binding was attempted with an incompatible type Image[2x2]. "
        "The contract is for UInt8, and the feature's elements are Float.",
    ),
    "a picture for no pixels": (
        lambda: open_binding(unary(shape=(1, 3, 0, 2))).bind("x", VideoFrame(BGRA8, 2, 2)),
        "Model variable x, expects Float[1,3,0,2,], but binding was attempted with an incompatible type Image[2x2]. "
        "The model's picture has no pixels.",
    ),
    "a side of another length": (
        lambda: open_binding(unary(shape=[2, 2])).bind("x", np.zeros((3, 4), np.float32)),
        "Model variable x, expects Float[2,2,], but binding was attempted with an incompatible type Float[3,4,]. "
        "Dimension 0 is 3, not 2. Dimension 1 is 4, not 2.",
    ),
    "another rank": (
        lambda: open_binding(unary(shape=[2, 2])).bind("x", NUMBERS),
        "Model variable x, expects Float[2,2,], but binding was attempted with an incompatible type Float[2,]. "
        "The rank is 1, not 2: reshape it to 2 x 2.",
    ),
    "another type": (
        lambda: open_binding(unary(shape=[2])).bind("x", np.zeros(2, np.uint16)),
        "Model variable x, expects Float[2,], but binding was attempted with an incompatible type UInt16[2,]. "
        "Bind a TensorFloat, or an array of float32: array.astype(np.float32).",
    ),
    "no data yet": (
        lambda: TensorFloat.create().to_numpy(),
        "This TensorFloat has no data yet. "
        "It gets them when it is bound to an output and the session evaluates, or from create(shape).",
    ),
    "half without pictures": (
        lambda: open_binding(unary(shape=(1, 2, 2, 2), element=10)).bind("x", np.zeros((1, 2, 2, 2), np.float32)),
        "Model variable x, expects Float16[1,2,2,2,], but binding was attempted with an incompatible type "
        "Float[1,2,2,2,]. Bind a TensorFloat16Bit, or an array of float16: array.astype(np.float16).",
    ),
    "half of another rank": (
        lambda: open_binding(unary(shape=(1, 3, 2), element=10)).bind("x", np.zeros((1, 3, 2), np.float32)),
        "Model variable x, expects Float16[1,3,2,], but binding was attempted with an incompatible type "
        "Float[1,3,2,]. Bind a TensorFloat16Bit, or an array of float16: array.astype(np.float16).",
    ),
    "a list of another length": (
        lambda: open_binding(unary(shape=["n", 2])).bind("x", [1.0] * 3),
        "The model variable x expects Float[-1,2,], and 3 elements came. It takes a multiple of 2.",
    ),
    "a list of another length than the one": (
        lambda: open_binding(unary(shape=[4])).bind("x", [1.0] * 3),
        "The model variable x expects Float[4,], and 3 elements came. It takes 4.",
    ),
    "a list for two free sizes": (
        lambda: open_binding(unary(shape=["n", "m"])).bind("x", [1.0] * 3),
        "The model variable x expects Float[-1,-1,]: a plain list of 3 elements does not say the free sizes. "
        "Bind an array or a tensor, which has a shape.",
    ),
    "nothing bound": (lambda: open_binding(unary())["x"], "Nothing is bound to 'x'. Bound so far: nothing."),
    "an unknown name": (
        lambda: open_binding(unary()).bind("z", NUMBERS),
        "The model has no variable with name z. Its inputs: x; its outputs: y.",
    ),
    "an input that is missing": (
        lambda: evaluated(two_outputs()),
        "Missing Input: x (Float[2,]). Bind every input before evaluate().",
    ),
    "a placeholder as an input": (
        lambda: open_binding(unary()).bind("x", TensorFloat.create((2,))),
        "The model variable x is an input, but has no associated resources to bind. "
        "Give the tensor data: create_from_array, from_numpy, or write to its to_numpy().",
    ),
    "one memory twice": (
        bind_twice,
        "The outputs y and z are bound to the same memory: one would overwrite the other. "
        "Bind an array of its own to each output, or leave one unbound.",
    ),
    "Pillow as an output": (
        lambda: open_binding(PICTURES).bind("y", Image.new("RGB", (2, 2))),
        "The model variable y is an output, and a Pillow image cannot be written in place. "
        "Bind a tensor, an array, a VideoFrame, a dict or a list; or leave it unbound: results have to_pil().",
    ),
    "a read-only frame as an output": (
        lambda: open_binding(PICTURES).bind("y", VideoFrame.create_with_software_bitmap(read_only())),
        "The model variable y is an output, and the picture bound to it is read-only. "
        "Bind a VideoFrame of its own, or a copy of the array.",
    ),
    "bytes as an output": (
        lambda: open_binding(unary(shape=[2])).bind("y", [bytes(8)]),
        "An output cannot be bound to read-only buffers. Use bytearray.",
    ),
    "buffers of another size": (
        lambda: evaluated(unary(shape=[2]), x=NUMBERS, y=[bytearray(4), bytearray(5)]),
        "The model variable y gave 8 bytes, and buffers of 9 are bound to it. "
        "Make them as large as the output together.",
    ),
    "words into buffers": (
        lambda: open_binding(unary(element=STRING)).bind("y", [bytearray(4)]),
        "Strings cannot be written into buffers. Bind an empty list.",
    ),
    "a dict for a tensor": (
        lambda: open_binding(unary(shape=[2])).bind("y", {}),
        "Model variable y, expects Float[2,], but binding was attempted with an incompatible type dict. "
        "Bind what the descriptor says, or leave the output unbound.",
    ),
    "a read-only array as an output": (
        lambda: open_binding(unary(shape=[2])).bind("y", np.frombuffer(bytes(8), np.float32)),
        "An output cannot be bound to read-only memory. Bind a copy of the array.",
    ),
    "a transposed array as an output": (
        lambda: open_binding(unary(shape=[2, 3])).bind("y", np.zeros((3, 2), np.float32).T),
        "An output cannot be bound to an array that is not C-contiguous: it would be written to a copy. "
        "Bind np.ascontiguousarray(array), or a tensor.",
    ),
    "pictures of another batch": (
        lambda: evaluated(PICTURES, x=np.zeros((2, 3, 2, 2), np.float32), y=VideoFrame(BGRA8, 2, 2)),
        "The model variable y gave 2 pictures, and 1 are bound to it. Bind as many frames as the batch holds.",
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_word_for_word(name: str) -> None:
    fail, text = SAYS[name]
    with pytest.raises(WinMLError) as info:
        fail()
    assert str(info.value) == text


def test_the_codes_that_differ_from_the_classes() -> None:
    with pytest.raises(WinMLError) as info:
        TensorString.create_from_array((1,), ["a"]).get_buffer()
    assert info.value.hresult == INVALID_FUNCTION
    pictures = descriptor(PICTURES)
    for make, hresult in ((TensorFloat, E_INVALIDARG), (TensorFloat16Bit, E_UNEXPECTED)):
        with pytest.raises(WinMLError) as info:
            make.create_from_array((1,), [1.0, 2.0])
        assert info.value.hresult == hresult
    for value, what in ((np.zeros((1, 2), np.float32), "float32 of shape (1, 2)"), (None, "NoneType"), ([], "list")):
        error = outputs.unexpected_output(pictures, value)
        assert error.hresult == E_UNEXPECTED
        assert str(error) == (
            f"The engine produced an unexpected evaluation output for unbound output variable y: {what} where "
            f"{pictures.expects()} is declared. The model's declared output types are wrong; correct them with an ONNX "
            "editor."
        )


@pytest.mark.parametrize("key", ["BitmapPixelFormat", "PixelRange", "DisableTensorCpuSync"])
def test_the_property_is_named(key: str) -> None:
    with pytest.raises(WinMLError, match=rf"^The property {key} "):
        open_binding(PICTURES).bind("x", VideoFrame(BGRA8, 2, 2), {key: "cat"})


@pytest.mark.parametrize("alpha", list(BitmapAlphaMode))
def test_the_alpha_mode_is_named(alpha: BitmapAlphaMode) -> None:
    assert SoftwareBitmap.convert(SoftwareBitmap(BGRA8, 2, 2), BGRA8, alpha).bitmap_alpha_mode is alpha
    with pytest.raises(WinMLError, match=r"^The alpha mode "):
        SoftwareBitmap.convert(SoftwareBitmap(BGRA8, 2, 2), BGRA8, 77)  # type: ignore[arg-type]


def test_a_binding_names_what_is_bound() -> None:
    bound = open_binding(two_outputs())
    bound.bind("x", NUMBERS)
    bound.bind("y", np.zeros(2, np.float32))
    with pytest.raises(WinMLError) as info:
        bound["z"]
    assert str(info.value) == "Nothing is bound to 'z'. Bound so far: x, y."
