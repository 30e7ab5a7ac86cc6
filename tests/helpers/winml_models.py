"""Models and pictures in the place of those of Windows ML's own tests: made here, with the same shapes and names.

They show what Windows ML's tests ask of binding and evaluating. They cannot show that a trained network is right.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
from onnx import helper
from PIL import Image

from helpers.models import FLOAT, INT64, STRING, data, tensor
from helpers.paths import PICTURES
from winml_py import BitmapPixelFormat, LearningModelBinding, LearningModelSession, VideoFrame
from winml_py.winrt.windows.ai.machinelearning import LearningModel

Array = np.ndarray[Any, Any]

FORMATS = {
    "Bgr8": {"Image.BitmapPixelFormat": "Bgr8"},
    "Rgb8": {"Image.BitmapPixelFormat": "Rgb8"},
}
SCALAR = helper.make_tensor_type_proto(FLOAT, [])


@cache
def squeezenet() -> bytes:
    """A classifier with the ends and the names of SqueezeNet: a coarse look at the picture, 1,000 classes."""
    rng = np.random.default_rng(1)
    kernel = rng.standard_normal((1000, 3, 4, 4)).astype(np.float32) / 40
    weights = {"kernel": kernel - kernel.mean(axis=(1, 2, 3), keepdims=True)}  # so that brightness decides nothing
    nodes = [
        helper.make_node("AveragePool", ["data_0"], ["coarse"], kernel_shape=[56, 56], strides=[56, 56]),
        helper.make_node("Conv", ["coarse", "kernel"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["softmaxout_1"], axis=1),
    ]
    return data(
        nodes,
        [tensor("data_0", [1, 3, 224, 224], doc="this is a long input description!")],
        [tensor("softmaxout_1", [1, 1000, 1, 1], doc="probabilities")],
        weights,
        metadata={"thisisalongkey": "thisisalongvalue", "key2": "val2"},
        producer_name="onnx-caffe2",
        domain="test-domain",
        doc_string="test-doc_string",
        model_version=123456,
    )


def add(*, denotation: str = "IMAGE", shape: Any = (1, 3, 16, 24), metadata: dict[str, str] | None = None) -> bytes:
    """The sum of two pictures, as Add_ImageNet1920."""
    ends = [tensor(name, shape, denotation=denotation) for name in ("input_39:0", "input_40:0", "add_3:0")]
    node = helper.make_node("Add", ["input_39:0", "input_40:0"], ["add_3:0"])
    return data([node], ends[:2], ends[2:], metadata=metadata)


def candy(kind: str, size: tuple[int, int] = (48, 48), batch: int | str = 1) -> bytes:
    """An effect on pictures, as fns-candy: an emboss with a gain for each channel, so that their order shows.

    Args:
        kind: `Bgr8` or `Rgb8`, an image; `tensor`, not one; `freeDimInput`, an image of any size.
        size: width and height, where they are fixed.
        batch: pictures at once.
    """
    kernel = np.zeros((3, 3, 3, 3), np.float32)
    for channel, gain in enumerate((0.5, 0.75, 1.0)):
        kernel[channel, channel] = gain * np.float32([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    shape = [batch, 3, "h", "w"] if kind == "freeDimInput" else [batch, 3, *size[::-1]]
    denotation = "" if kind == "tensor" else "IMAGE"
    ends = [tensor(name, shape, denotation=denotation) for name in ("inputImage", "outputImage")]
    nodes = [
        helper.make_node("Pad", ["inputImage", "pads"], ["padded"], mode="reflect"),
        helper.make_node("Conv", ["padded", "kernel", "bias"], ["outputImage"]),
    ]
    weights = {
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "kernel": kernel,
        "bias": np.float32([40, 20, 0]),
    }
    return data(nodes, ends[:1], ends[1:], weights, metadata=FORMATS["Rgb8" if kind == "Rgb8" else "Bgr8"])


def relu() -> bytes:
    return data([helper.make_node("Relu", ["X"], ["Y"])], [tensor("X", [5])], [tensor("Y", [5])])


def open_stream(model: bytes) -> BytesIO:
    """A stream to load a model from."""
    return BytesIO(model)


def castmap(key: int) -> bytes:
    kind = helper.make_map_type_proto(key, SCALAR)
    node = helper.make_node("CastMap", ["X"], ["Y"], domain="ai.onnx.ml", cast_to="TO_FLOAT", map_form="DENSE")
    return data([node], [helper.make_value_info("X", kind)], [tensor("Y", [1, 3])], domains={"ai.onnx.ml": 1})


def dictvectorizer(key: int) -> bytes:
    vocabulary: Any = {"int64_vocabulary": [1, 2, 3]} if key == INT64 else {"string_vocabulary": ["a", "b", "c"]}
    node = helper.make_node("DictVectorizer", ["X"], ["Y"], domain="ai.onnx.ml", **vocabulary)
    kind = helper.make_map_type_proto(key, SCALAR)
    return data([node], [helper.make_value_info("X", kind)], [tensor("Y", [1, 3])], domains={"ai.onnx.ml": 1})


def zipmap(key: int) -> bytes:
    labels: Any = {"classlabels_int64s": [0, 1, 2]}
    if key == STRING:
        labels = {"classlabels_strings": ["cat", "dog", "lion"]}
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(key, SCALAR))
    node = helper.make_node("ZipMap", ["X"], ["Y"], domain="ai.onnx.ml", **labels)
    return data([node], [tensor("X", [1, 3])], [helper.make_value_info("Y", kind)], domains={"ai.onnx.ml": 1})


def id_tensor_string() -> bytes:
    ends = [tensor(name, [2, 2], STRING) for name in ("X", "Y")]
    return data([helper.make_node("Identity", ["X"], ["Y"])], ends[:1], ends[1:])


def sequence_length() -> bytes:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2, 3]))
    node = helper.make_node("SequenceLength", ["X"], ["Y"])
    return data([node], [helper.make_value_info("X", kind)], [tensor("Y", [], INT64)])


def sequence_construct() -> bytes:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(INT64, [2, 3]))
    node = helper.make_node("SequenceConstruct", ["tensor1", "tensor2"], ["output_sequence"])
    inputs = [tensor(name, [2, 3], INT64) for name in ("tensor1", "tensor2")]
    return data([node], inputs, [helper.make_value_info("output_sequence", kind)])


def quantized() -> bytes:
    """Weights in 8 bits, dequantized on the way."""
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    weights = {
        "q": np.random.default_rng(2).integers(0, 256, (4, 3), np.uint8),
        "scale": np.float32(0.05),
        "zero": np.uint8(128),
    }
    return data(nodes, [tensor("x", [1, 4])], [tensor("y", [1, 3])], weights)


def named_dimension() -> bytes:
    """An effect whose batch is named None, as fns-candy's."""
    ends = [tensor(name, ["None", 3, 12, 12]) for name in ("inputImage", "outputImage")]
    return data([helper.make_node("Neg", ["inputImage"], ["outputImage"])], ends[:1], ends[1:])


def open_session(model: bytes) -> LearningModelSession:
    return LearningModelSession(LearningModel.load(model))


def open_binding(model: bytes) -> LearningModelBinding:
    return LearningModelBinding(open_session(model))


def load_picture(name: str, width: int, height: int) -> Array:
    """Red, green and blue of one of two pictures: `cat`, a photograph, or `fish`, which is drawn."""
    if name == "cat":
        with Image.open(PICTURES / "cat.jpg") as image:
            return np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC))
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    waves = [np.sin(9 * x) * np.cos(5 * y), np.sin(4 * (x + y)), np.cos(7 * x * y)]
    return np.rint(np.stack(waves, axis=-1) * 127.5 + 127.5).astype(np.uint8)


def make_pixels(rgb: Array, pixel_format: BitmapPixelFormat) -> Array:
    """A picture as the pixels of a format, by Pillow's arithmetic for gray, which is not ours."""
    if pixel_format is BitmapPixelFormat.GRAY8:
        return np.asarray(Image.fromarray(rgb).convert("L"))
    order = [2, 1, 0] if pixel_format is BitmapPixelFormat.BGRA8 else [0, 1, 2]
    return np.dstack([rgb[..., order], np.full(rgb.shape[:2], 255, np.uint8)])


def make_frame(rgb: Array, pixel_format: BitmapPixelFormat = BitmapPixelFormat.BGRA8) -> VideoFrame:
    """A frame of a format that holds a picture."""
    made = VideoFrame(pixel_format, rgb.shape[1], rgb.shape[0])
    made.software_bitmap.copy_from_buffer(make_pixels(rgb, pixel_format).tobytes())
    return made


def make_planes(rgb: Array, order: str = "bgr") -> Array:
    """A picture as a tensor of bytes' numbers: 1 x 3 x height x width."""
    return np.ascontiguousarray(rgb[..., ["rgb".index(c) for c in order]].transpose(2, 0, 1)[None]).astype(np.float32)
