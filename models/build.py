"""Builds every model of this folder, bit for bit, from the weights in `weights/`.

    python models/build.py            writes them here
    python models/build.py FOLDER     writes them there

The models:
    digits.onnx         a handwritten digit as a 28x28 gray picture -> probabilities of 0 to 9
    digits_batch.onnx   the same for a batch of any size; the dimension is named `batch` and denoted DATA_BATCH
    edges, sharpen, blur, emboss, invert .onnx
                        a picture of any size -> a picture of the same size, made of convolutions
    shapes.onnx         drawn circles, squares and triangles in a picture -> boxes and scores, as YOLO v8 gives them
    shapes_mask.onnx    the same picture -> four classes for each pixel, the ground being one
    upscale.onnx        a picture of any size -> the same picture, twice as wide and as high
    digits_float16, sharpen_float16 .onnx
                        twins of two of them, converted by `winml_py.float16` and checked
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from winml_py import BitmapPixelFormat, ImageContract, ImageKernel, LearningModelPixelRange
from winml_py.float16 import convert
from winml_py.scaling import Fit

HERE = Path(__file__).parent
OPSET, IR_VERSION = 17, 8  # old enough for every runtime still in use

FLOAT16 = ("digits", "sharpen")
"""The models that have a float16 twin."""

EFFECTS = {
    # name: kernel, divisor, offset; all numbers are whole, so float32 computes them exactly
    "sharpen": ([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], 1, 0),
    "blur": (np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]), 256, 0),
    "emboss": ([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], 1, 128),
    "invert": ([[-1]], 1, 255),
}
SHAPES, SHAPES_SIDE = ("circle", "square", "triangle"), 128
"""What the models of shapes find, in that order, and the side of the picture that they take."""

SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])


def picture(name: str, shape: list[int | str], description: str) -> ValueInfoProto:
    """A feature that Windows ML takes for a picture."""
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape, description)
    value.type.denotation = "IMAGE"
    denotations = ("DATA_BATCH", "DATA_CHANNEL", "DATA_FEATURE", "DATA_FEATURE")
    for dimension, denotation in zip(value.type.tensor_type.shape.dim, denotations, strict=True):
        dimension.denotation = denotation
    return value


def model(
    name: str,
    description: str,
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto],
    outputs: list[ValueInfoProto],
    weights: dict[str, np.ndarray],
    metadata: dict[str, str],
) -> ModelProto:
    tensors = [numpy_helper.from_array(np.ascontiguousarray(value), key) for key, value in weights.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    proto.producer_name = "winml-py"
    proto.producer_version = proto.domain = ""
    proto.model_version = 1
    proto.doc_string = description
    helper.set_model_props(proto, metadata)
    return proto


def pixels(pixel_format: str, pixel_range: str) -> dict[str, str]:
    """The metadata that Windows ML reads."""
    return {
        "Image.BitmapPixelFormat": pixel_format,
        "Image.ColorSpaceGamma": "SRGB",
        "Image.NominalPixelRange": pixel_range,
    }


def digits(name: str, batch: int | str) -> ModelProto:
    weights = dict(np.load(HERE / "weights" / "digits.npz"))
    weights["linear_weight"] = weights["linear_weight"].T
    nodes = [
        helper.make_node("Conv", ["image", "conv1_weight", "conv1_bias"], ["conv1"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool1", "conv2_weight", "conv2_bias"], ["conv2"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["conv2"], ["relu2"]),
        helper.make_node("MaxPool", ["relu2"], ["pool2"], kernel_shape=[3, 3], strides=[3, 3]),
        helper.make_node("Flatten", ["pool2"], ["flat"]),
        helper.make_node("Gemm", ["flat", "linear_weight", "linear_bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    image = picture("image", [batch, 1, 28, 28], "a handwritten digit, white on black")
    output = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, 10], "of the digits 0 to 9")
    if isinstance(batch, str):
        output.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    description = "Handwritten digits, trained on scikit-learn's bundled digits; 447 of 450 test pictures right."
    return model(name, description, nodes, [image], [output], weights, pixels("Gray8", "Normalized_0_1"))


def depthwise(kernel: np.ndarray) -> np.ndarray:
    """A kernel for each of the three channels, which are filtered apart."""
    return np.repeat(kernel[None, None].astype(np.float32), 3, axis=0)


def effect(
    name: str, description: str, filters: list[NodeProto], margin: int, weights: dict[str, np.ndarray]
) -> ModelProto:
    """A picture whose edge is mirrored by `margin` pixels, so that `filters` keep its size."""
    weights = {"margins": np.array([0, 0, margin, margin] * 2, np.int64), **weights}
    pad = helper.make_node("Pad", ["image", "margins"], ["padded"], mode="reflect")
    shape: list[int | str] = [1, 3, "height", "width"]
    image = picture("image", shape, "any picture")
    result = picture("result", shape, "the picture, filtered")
    metadata = pixels("Bgr8", "NominalRange_0_255")
    return model(name, description, [pad, *filters], [image], [result], weights, metadata)


def convolution_effect(name: str) -> ModelProto:
    kernel, divisor, offset = EFFECTS[name]
    kernel = np.array(kernel)
    weights = {"kernel": depthwise(kernel / divisor), "offset": np.full(3, offset, np.float32)}
    node = helper.make_node("Conv", ["padded", "kernel", "offset"], ["result"], group=3)
    return effect(name, f"Picture to picture: {name}.", [node], len(kernel) // 2, weights)


def edges() -> ModelProto:
    """Sobel's operator: the length of the gradient, channel by channel."""
    weights = {"across": depthwise(SOBEL), "down": depthwise(SOBEL.T)}
    nodes = [
        helper.make_node("Conv", ["padded", "across"], ["dx"], group=3),
        helper.make_node("Conv", ["padded", "down"], ["dy"], group=3),
        helper.make_node("Mul", ["dx", "dx"], ["dx2"]),
        helper.make_node("Mul", ["dy", "dy"], ["dy2"]),
        helper.make_node("Add", ["dx2", "dy2"], ["squares"]),
        helper.make_node("Sqrt", ["squares"], ["result"]),
    ]
    return effect("edges", "Picture to picture: edges (Sobel).", nodes, 1, weights)


def conv(name: str, source: str, to: str, **attributes: object) -> NodeProto:
    """A convolution with the weights of that name."""
    return helper.make_node("Conv", [source, f"{name}.weight", f"{name}.bias"], [to], **attributes)


def shape_features() -> list[NodeProto]:
    """The layers that both models of shapes share: `above0` has the finest grid of boxes, `above2` the coarsest."""
    nodes, source = [], "image"
    for index in range(5):
        nodes += [
            conv(f"down.{index}", source, f"{index}_small", strides=[2, 2], pads=[1] * 4),
            helper.make_node("Relu", [f"{index}_small"], [f"{index}_in"]),
            conv(f"same.{index}", f"{index}_in", f"{index}_conv", pads=[1] * 4),
            helper.make_node("Relu", [f"{index}_conv"], [f"{index}_relu"]),
            helper.make_node("Add", [f"{index}_in", f"{index}_relu"], [f"level{index}"]),
        ]
        source = f"level{index}"
    for index in (2, 1, 0):
        nodes.append(conv(f"side.{index}", f"level{index + 2}", f"side{index}"))
        if index < 2:
            nodes += [
                doubled(f"above{index + 1}", f"larger{index}"),
                helper.make_node("Add", [f"side{index}", f"larger{index}"], [f"sum{index}"]),
            ]
        nodes += [
            conv(f"mixed.{index}", f"sum{index}" if index < 2 else "side2", f"mixed{index}", pads=[1] * 4),
            helper.make_node("Relu", [f"mixed{index}"], [f"above{index}"]),
        ]
    return nodes


def doubled(source: str, to: str) -> NodeProto:
    modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return helper.make_node("Resize", [source, "", "twice"], [to], **modes)


def shape_weights(nodes: list[NodeProto]) -> dict[str, np.ndarray]:
    """The trained weights that the nodes take."""
    weights = {**np.load(HERE / "weights" / "shapes.npz"), "twice": np.float32([1, 1, 2, 2])}
    taken = {name for node in nodes for name in node.input}
    return {name: value for name, value in weights.items() if name in taken}


def shapes() -> ModelProto:
    """The detector. A place of a grid gives the middle of a box, its size, and a score for each class."""
    nodes, constants = shape_features(), {"low": np.float32(-4), "high": np.float32(4)}
    for index, stride in enumerate((8, 16, 32)):
        steps = (np.arange(SHAPES_SIDE // stride, dtype=np.float32) + 0.5) * stride
        constants[f"places{index}"] = np.stack(np.meshgrid(steps, steps))[None]
        constants[f"stride{index}"], constants[f"unit{index}"] = np.float32(stride), np.float32(stride * 2)
        sizes = [2, 2, len(SHAPES)]
        nodes += [
            conv(f"heads.{index}", f"above{index}", f"head{index}"),
            helper.make_node("Split", [f"head{index}", "sizes"], [f"{part}{index}" for part in "msl"], axis=1),
            helper.make_node("Mul", [f"m{index}", f"stride{index}"], [f"shift{index}"]),
            helper.make_node("Add", [f"shift{index}", f"places{index}"], [f"middle{index}"]),
            helper.make_node("Clip", [f"s{index}", "low", "high"], [f"clipped{index}"]),
            helper.make_node("Exp", [f"clipped{index}"], [f"times{index}"]),
            helper.make_node("Mul", [f"times{index}", f"unit{index}"], [f"size{index}"]),
            helper.make_node("Sigmoid", [f"l{index}"], [f"score{index}"]),
            helper.make_node(
                "Concat", [f"{part}{index}" for part in ("middle", "size", "score")], [f"all{index}"], axis=1
            ),
            helper.make_node("Reshape", [f"all{index}", "rows"], [f"rows{index}"]),
        ]
        constants |= {"sizes": np.array(sizes, np.int64), "rows": np.array([1, sum(sizes), -1], np.int64)}
    nodes.append(helper.make_node("Concat", [f"rows{index}" for index in range(3)], ["boxes"], axis=2))
    places = sum((SHAPES_SIDE // stride) ** 2 for stride in (8, 16, 32))
    output = helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 4 + len(SHAPES), places], "as YOLO v8's")
    description = (
        "Finds drawn circles, squares and triangles. Trained on pictures that models/shapes_data.py draws; in 200 "
        "others, above 0.5: 310 of 314 shapes found, 11 found that are none."
    )
    return shape_model("shapes", description, nodes, output, constants, SHAPES)


def shapes_mask() -> ModelProto:
    """The classes of pixels, as logits."""
    nodes = [
        *shape_features(),
        doubled("above0", "larger"),
        helper.make_node("Concat", ["level1", "larger"], ["both"], axis=1),
        conv("fine", "both", "fine_conv", pads=[1] * 4),
        helper.make_node("Relu", ["fine_conv"], ["fine_relu"]),
        conv("pixels", "fine_relu", "small"),
        helper.make_node("Resize", ["small", "", "fourfold"], ["logits"], mode="linear"),
    ]
    shape = [1, 1 + len(SHAPES), SHAPES_SIDE, SHAPES_SIDE]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape, "of the classes of each pixel")
    description = (
        "Drawn circles, squares and triangles, pixel by pixel. Trained as shapes.onnx is; of 200 other pictures, "
        "99.3% of the pixels right."
    )
    constants = {"fourfold": np.float32([1, 1, 4, 4])}
    return shape_model("shapes_mask", description, nodes, output, constants, ("ground", *SHAPES))


def shape_model(
    name: str,
    description: str,
    nodes: list[NodeProto],
    output: ValueInfoProto,
    constants: dict[str, np.ndarray],
    labels: tuple[str, ...],
) -> ModelProto:
    """A model of shapes: any picture lies as a whole in the middle of a gray square."""
    image = picture("image", [1, 3, SHAPES_SIDE, SHAPES_SIDE], "a picture of drawn shapes")
    contract = ImageContract(
        BitmapPixelFormat.RGB8,
        LearningModelPixelRange.ZERO_TO_ONE,
        scaling=Fit(),
        kernel=ImageKernel.LINEAR,
        pad=(114, 114, 114),
    )
    metadata = {**contract.to_metadata(), "Labels": json.dumps(labels)}
    return model(name, description, nodes, [image], [output], shape_weights(nodes) | constants, metadata)


def upscale() -> ModelProto:
    """Adds details to the picture enlarged by linear interpolation. Its border is repeated for the convolutions."""
    weights = dict(np.load(HERE / "weights" / "upscale.npz"))
    margin = sum(weights[f"convs.{index}.weight"].shape[-1] // 2 for index in range(4))
    nodes = [helper.make_node("Pad", ["image", "margins"], ["padded"], mode="edge")]
    source = "padded"
    for index in range(3):
        nodes += [
            conv(f"convs.{index}", source, f"conv{index}"),
            helper.make_node("Relu", [f"conv{index}"], [f"relu{index}"]),
        ]
        source = f"relu{index}"
    nodes += [
        conv("convs.3", source, "quarters"),
        helper.make_node("DepthToSpace", ["quarters"], ["details"], blocksize=2, mode="CRD"),
        helper.make_node("Resize", ["image", "", "twice"], ["enlarged"], mode="linear"),
        helper.make_node("Add", ["enlarged", "details"], ["result"]),
    ]
    weights |= {"margins": np.array([0, 0, margin, margin] * 2, np.int64), "twice": np.float32([1, 1, 2, 2])}
    image = picture("image", [1, 3, "height", "width"], "any picture")
    result = picture("result", [1, 3, "result_height", "result_width"], "the picture, twice as wide and as high")
    description = (
        "Makes pictures twice as wide and as high. Trained on pictures that models/upscale_data.py draws; on 100 "
        "others it is ahead of Pillow's bicubic by: leaves 1.6 dB, lines 1.9 dB, text 2.3 dB, textures 0.5 dB."
    )
    return model("upscale", description, nodes, [image], [result], weights, pixels("Rgb8", "Normalized_0_1"))


def build() -> dict[str, bytes]:
    """Every model, by file name."""
    models = [digits("digits", 1), digits("digits_batch", "batch"), edges(), *map(convolution_effect, EFFECTS)]
    models += [shapes(), shapes_mask(), upscale()]
    built = {f"{proto.graph.name}.onnx": proto.SerializeToString(deterministic=True) for proto in models}
    return built | {f"{name}_float16.onnx": float16(built[f"{name}.onnx"]) for name in FLOAT16}


def float16(model: bytes) -> bytes:
    """The model in float16, which the converter has checked."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.onnx"), Path(folder, "half.onnx")
        source.write_bytes(model)
        convert(source, target)
        return target.read_bytes()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, data in build().items():
        (folder / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
