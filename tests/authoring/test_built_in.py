"""Contracts built into models, against `bind`, Pillow and the reference implementation of ONNX."""

from __future__ import annotations

import math
import platform
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from PIL import Image

from helpers.built_in_contracts import NEAREST, SCALED, UNSCALED, Case, Compared, drawing, picture
from helpers.models import FLOAT, FLOAT16, data, model, tensor, unary
from winml_py import (
    BitmapPixelFormat,
    ImageAnchor,
    ImageContract,
    ImageFeatureDescriptor,
    ImageKernel,
    ImageRounding,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelSession,
    NotSupportedError,
    TensorFeatureDescriptor,
    TensorKind,
    TensorLayout,
)
from winml_py.authoring import build_in
from winml_py.core.imaging.contract import BitmapBounds, compute_placement, place
from winml_py.core.onnx_file.expressions import Expression, GraphWriter
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

ROOT = Path(__file__).parents[2]
RGB8, BGR8, GRAY8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8, BitmapPixelFormat.GRAY8
RGB = ImageContract(RGB8)
WHOLE = (CropToAspect(), Stretch(), Fit())
SIZES = ((1, 1), (3, 5), (223, 224), (641, 479))

Array = np.ndarray[Any, Any]


def built(source: Path, *arguments: Any, **options: Any) -> Path:
    target = source.with_name("built.onnx")
    build_in(source, target, *arguments, **options)
    onnx.checker.check_model(onnx.load(target), full_check=True)
    return target


def saved(folder: Path, content: bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(content)
    return path


def run(path: Path, **inputs: Array) -> Array:
    first: Array = ort.InferenceSession(path).run(None, inputs)[0]
    return first


@pytest.mark.parametrize("case", UNSCALED.values(), ids=UNSCALED)
def test_what_is_not_scaled_is_exact(case: Case, tmp_path: Path) -> None:
    compared = Compared(case, tmp_path)
    for size in SIZES:
        # with a mean or a std, OpenCV computes in another order
        np.testing.assert_allclose(*compared.tensors(picture(*size, case.pictures)), rtol=3e-7, atol=5e-7)


@pytest.mark.parametrize("case", NEAREST.values(), ids=NEAREST)
def test_nearest_is_exact(case: Case, tmp_path: Path) -> None:
    compared = Compared(case, tmp_path)
    odd = [(height | 1, width | 1) for height, width in SIZES]
    # only in even sides there are middles between two pixels, where OpenCV for other processors decides otherwise
    for size in (*odd, (224, 222), (40, 50)) if platform.machine() in ("x86_64", "AMD64") else odd:
        built_tensor, bound = compared.tensors(picture(*size, case.pictures))
        np.testing.assert_array_equal(built_tensor, bound)


@pytest.mark.one_python
@pytest.mark.parametrize("case", SCALED.values(), ids=SCALED)
def test_what_is_scaled_is_within_a_level(case: Case, tmp_path: Path) -> None:
    compared = Compared(case, tmp_path)
    for size in SIZES:
        for pixels in (picture(*size, case.pictures), drawing(*size, case.pictures)):
            mean, most = compared.difference(pixels)
            assert mean <= 0.05, size
            assert most <= (1.1 if case.element == FLOAT16 else 1.01), size


# Sides of one pixel, tall and wide pictures, and the factors at which sums lie between two levels.
ODD_SIZES = (
    *((1, 7), (9, 1), (2, 900), (900, 3), (40, 50), (96, 336), (192, 224), (288, 112), (576, 112), (700, 96)),
    *((136, 50), (236, 90)),  # OpenCV divides by 1 / factor there
)


@pytest.mark.one_python
@pytest.mark.parametrize("exact", [False, True], ids=["", "exact"])
@pytest.mark.parametrize("kernel", ImageKernel)
def test_every_kernel_is_within_a_level(kernel: ImageKernel, exact: bool, tmp_path: Path) -> None:
    contract = ImageContract(RGB8, scaling=Stretch(), kernel=kernel, exact=exact)
    compared = Compared(Case(contract), tmp_path)
    for size in ODD_SIZES:
        for pixels in (picture(*size, RGB8), drawing(*size, RGB8)):
            mean, most = compared.difference(pixels)
            assert mean <= 0.05, size
            assert most <= 1.01, size
            assert most <= 0.01 or not (exact and kernel.name.startswith("ANTIALIASED")), size  # Pillow's fixed point


@pytest.mark.exhaustive
def test_many_steps_and_strips_are_one_picture(tmp_path: Path) -> None:
    """A picture above 16 MB, of which `bind` scales strips, and the nodes make several steps."""
    for kernel in (ImageKernel.ANTIALIASED_LINEAR, ImageKernel.ANTIALIASED_CUBIC, ImageKernel.AREA):
        compared = Compared(Case(replace(ImageContract.imagenet(), kernel=kernel), (224, 224)), tmp_path)
        for size in ((2001, 2900), (5000, 1200)):
            mean, most = compared.difference(picture(*size, RGB8))
            assert mean <= 0.05, (kernel, size)
            assert most <= 1.01, (kernel, size)


@pytest.mark.parametrize("batch", ["n", None, 3])
@pytest.mark.parametrize("layout", TensorLayout)
def test_a_batch_is_its_pictures(batch: str | int | None, layout: TensorLayout, tmp_path: Path) -> None:
    contract = ImageContract(
        RGB8, kernel=ImageKernel.ANTIALIASED_LINEAR, layout=layout, pad=(1, 2, 3), scaling=Stretch()
    )
    sides = (3, 20, 30) if layout is TensorLayout.NCHW else (20, 30, 3)
    alone = built(saved(tmp_path, unary(shape=(1, *sides))), contract)
    pictures = np.stack([picture(41, 37, RGB8), drawing(41, 37, RGB8), picture(41, 37, RGB8)[::-1]])
    wanted = np.concatenate([run(alone, x=pixels) for pixels in pictures])
    made = built(saved(tmp_path, unary(shape=(batch, *sides))), contract)
    np.testing.assert_array_equal(run(made, x=pictures), wanted)
    assert LearningModel.load(made).input_features[0].shape == (3 if batch == 3 else -1, -1, -1, 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kernel", [Image.Resampling.BICUBIC, Image.Resampling.LANCZOS])
def test_the_antialiased_kernels_are_those_of_pillow(kernel: Image.Resampling, tmp_path: Path) -> None:
    name = {"BICUBIC": "CUBIC"}.get(kernel.name, kernel.name)
    contract = ImageContract(RGB8, scaling=Stretch(), kernel=ImageKernel[f"ANTIALIASED_{name}"])
    made = built(saved(tmp_path, unary(shape=(1, 3, 60, 70))), contract)
    pixels = picture(111, 199, RGB8)
    # one axis after the other, because Pillow 13 may begin with either
    wanted = Image.fromarray(pixels).resize((70, 111), kernel).resize((70, 60), kernel)
    difference = np.abs(run(made, x=pixels)[0].transpose(1, 2, 0) - np.asarray(wanted, np.float32))
    assert difference.max() <= 1
    assert difference.mean() < 0.01


@pytest.mark.parametrize("kernel", ImageKernel)
def test_the_nodes_mean_the_same_by_the_reference_of_onnx(kernel: ImageKernel, tmp_path: Path) -> None:
    contract = ImageContract(RGB8, scaling=WHOLE[kernel % 3], kernel=kernel, pad=(10, 20, 30))
    made = built(saved(tmp_path, unary(shape=(1, 3, 9, 12), opset=13)), contract)
    reference = ReferenceEvaluator(onnx.load(made))
    for size in ((7, 5), (20, 31)):
        pixels = picture(*size, RGB8)
        np.testing.assert_allclose(run(made, x=pixels), reference.run(None, {"x": pixels})[0], atol=1)


def random_scaling(random: np.random.Generator) -> Scaling:
    """One of all the ways that there are."""
    rounding, multiple_rounding, crop_rounding = (ImageRounding(int(number)) for number in random.integers(0, 4, 3))
    multiple = Multiple(int(random.choice([1, 1, 8, 14])), multiple_rounding)
    pad_multiple = int(random.choice([1, 32]))
    ends = Ends(crop_rounding, ImageAnchor(int(random.integers(0, 2))), pad_multiple)
    common: dict[str, Any] = {"multiple": multiple, "ends": ends}
    rounded: dict[str, Any] = {"rounding": rounding, **common}
    short, long = sorted(int(side) for side in random.integers(20, 400, 2))
    ratio = float(random.uniform(0.5, 1))
    ways = [
        Keep(**rounded),
        Stretch((short, long), ends),
        Fit((short, long), **rounded),
        ShortestSide(short, **rounded),
        LongestSide(long, **rounded),
        ShortestSide(short, limit=long, **rounded),
        ShortestSide(short, limit=long, limits_rounded=True, **rounded),
        LeastChange(short, long, **common),
        LongestSide(long, enlarges=False, **rounded),
        ShortestSide(short, shrinks=False, **rounded),
        ShortestSide(short, limit=long, enlarges=False, **rounded),
        Fit((short, long), shrinks=False, **rounded),
        Fit((short, long), enlarges=False, **rounded),
        CropRatio(ratio, **rounded),
        CropSquare(ratio),
        FitHeight((short, long)),
    ]
    return ways[int(random.integers(0, len(ways)))]


def placement_model(scaling: Scaling, sides: tuple[int | None, int | None]) -> onnx.ModelProto:
    """From width and height to all numbers of a placement."""
    graph = GraphWriter("p")
    width, height = Expression(graph, "width", np.int64), Expression(graph, "height", np.int64)
    region, size = BitmapBounds(0, 0, width, height), (height, width)  # type: ignore[arg-type]
    made = place(region, size, sides, scaling)  # type: ignore[arg-type]
    numbers = (*made.part, *made.scaled, *made.cut, *made.target, *made.tensor)
    graph.node("Identity", graph.vector(*numbers), dtype=np.int64, output="numbers")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in ("width", "height")]
    outputs = [helper.make_tensor_value_info("numbers", TensorProto.INT64, [16])]
    return model(graph.nodes, inputs, outputs, opset=13)


@pytest.mark.parametrize("seed", range(72))
def test_a_picture_goes_where_bind_puts_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    scaling = random_scaling(random) if seed % 4 else WHOLE[seed % 3]
    is_free = not (scaling.takes_tensor_size or isinstance(scaling, (CropRatio, CropSquare))) and seed % 3 == 0
    sides = (None, None) if is_free else tuple(int(side) for side in random.integers(1, 300, 2))
    session = ort.InferenceSession(placement_model(scaling, sides).SerializeToString())
    for width, height in ((1, 1), (5, 3), (640, 427), *random.integers(1, 1200, (40, 2)).tolist()):
        feeds = {"width": np.array(width), "height": np.array(height)}
        placed = compute_placement(width, height, sides, scaling)
        wanted = [*placed.part, *placed.scaled, *placed.cut, *placed.target, *placed.tensor]
        assert session.run(None, feeds)[0].tolist() == wanted, (scaling, width, height, sides)


EIGHT, PADDED = Multiple(8), Ends(pad_multiple=32)
RULES: list[Any] = [
    *WHOLE,
    *(Stretch((30, 44)), Stretch(ends=PADDED), Keep(), Keep(multiple=EIGHT), Keep(ImageRounding.UP, ends=PADDED)),
    *(Fit((24, 44)), Fit(multiple=EIGHT), Fit(rounding=ImageRounding.UP), Fit(enlarges=False), Fit(shrinks=False)),
    *(Fit(ends=PADDED), Fit(multiple=EIGHT, shrinks=False, ends=PADDED), ShortestSide(30, shrinks=False)),
    *(
        LongestSide(40, ImageRounding.UP),
        LongestSide(44, multiple=EIGHT, ends=PADDED),
        LeastChange(30, 44, ends=PADDED),
    ),
    *(CropRatio(0.875), CropSquare(0.5), CropToAspect(ImageRounding.DOWN)),
]
ROUNDED: dict[ImageRounding, Any] = {ImageRounding.DOWN: math.floor, ImageRounding.UP: math.ceil}


def scale_slowly(rule: Any, picture: tuple[int, int], sides: tuple[int | None, int | None]) -> list[int]:
    """Height and width that a picture is scaled to, by the words of the rules, in fractions."""
    goal = getattr(rule, "size", None) or sides
    if None not in goal and isinstance(rule, (CropToAspect, Stretch, CropSquare)):
        return list(goal)
    factors = [Fraction(side, own) for side, own in zip(goal, picture, strict=True) if side is not None]
    is_one_fixed = len(factors) == 1
    short, long, pixels = Fraction(min(picture)), Fraction(max(picture)), getattr(rule, "pixels", 1 << 20)
    factor = min(factors, default=Fraction(1))
    match rule:
        case Keep() if not is_one_fixed:
            factor = Fraction(1)
        case ShortestSide():
            factor = pixels / short
        case LongestSide() if not is_one_fixed:
            factor = pixels / long
        case LeastChange(shortest_side=shortest, longest_side=longest):
            factor = min(shortest / short, longest / long, key=lambda factor: abs(factor - 1))
        case CropRatio(ratio=ratio):
            factor = math.floor(min(goal) / Fraction(ratio)) / short
    factor = factor if getattr(rule, "enlarges", True) else min(factor, Fraction(1))
    factor = factor if getattr(rule, "shrinks", True) else max(factor, Fraction(1))
    scaled = []
    for own, side in zip(picture, sides, strict=True):
        rounding = getattr(rule, "rounding", ImageRounding.DOWN)
        rounding = ImageRounding.DOWN if isinstance(rule, CropToAspect) else rounding  # its own is for the part
        rounded = ROUNDED.get(rounding, round)(own * factor)
        if side is None or not is_one_fixed or isinstance(rule, (Fit, ShortestSide, LeastChange)):
            multiple = getattr(rule, "multiple", Multiple()).of
            rounded = max(1, rounded // multiple) * multiple
            rounded = min(pixels, rounded) if isinstance(rule, LongestSide) else rounded
        scaled.append(rounded)
    return scaled


@pytest.mark.parametrize("sides", [(32, 48), (32, None), (None, 48), (None, None)])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_with_fixed_and_free_sides(rule: Any, sides: tuple[int | None, int | None], tmp_path: Path) -> None:
    """`bind`, a built-in contract and the slow reference: a white picture in black padding, and a drawing."""
    case = Case(ImageContract(RGB8, scaling=rule), sides)
    if isinstance(rule, (CropRatio, CropSquare)) and None in sides:
        with pytest.raises(InvalidArgumentError, match="requires the tensor size"):
            Compared(case, tmp_path)
        return
    compared = Compared(case, tmp_path)
    for size in ((37, 50), (50, 37), (20, 31)):
        mean, most = compared.difference(drawing(*size, RGB8))
        assert mean <= 0.05
        assert most <= 1.01
        scaled = scale_slowly(rule, size, sides)
        stride = rule.ends.pad_multiple
        tensor_size = [side or -(-own // stride) * stride for side, own in zip(sides, scaled, strict=True)]
        for white in compared.tensors(np.full((*size, 3), 255, np.uint8)):
            assert list(white.shape[2:]) == tensor_size, size
            seen = [int(white[0, 0].any(axis).sum()) for axis in (1, 0)]
            assert seen == list(map(min, scaled, tensor_size)), size


def test_pictures_of_other_formats_are_the_same_picture(tmp_path: Path) -> None:
    source = saved(tmp_path, unary(shape=(1, 3, 20, 30)))
    pixels = picture(33, 44, RGB8)
    wanted = run(built(source, ImageContract.imagenet()), x=pixels)
    for pictures in (BGR8, BitmapPixelFormat.RGBA8, BitmapPixelFormat.BGRA8):
        order = pixels if pictures is BitmapPixelFormat.RGBA8 else pixels[..., ::-1]
        padded = order if pictures is BGR8 else np.concatenate([order, pixels[..., :1]], axis=2)
        made = built(source, ImageContract.imagenet(), pictures=pictures)
        np.testing.assert_array_equal(run(made, x=padded), wanted)


def test_the_model_says_that_it_takes_bytes(tmp_path: Path) -> None:
    contract = ImageContract.imagenet().to_metadata()
    metadata = {"maker": "me", **contract}
    source = saved(tmp_path, unary(shape=("n", 3, 20, 30), denotation="IMAGE", metadata=metadata))
    value = onnx.load(source)
    value.graph.output[0].type.denotation = ""
    source.write_bytes(value.SerializeToString())
    loaded = LearningModel.load(built(source))
    feature = loaded.input_features[0]
    assert isinstance(feature, TensorFeatureDescriptor)
    assert (feature.tensor_kind, feature.shape) == (TensorKind.UINT8, (-1, -1, -1, 3))
    assert feature.dimension_names == ("n", "x_height", "x_width", "")
    assert dict(loaded.metadata) == {"maker": "me", "winml_py.built_in": "RGB8"}
    session = LearningModelSession(loaded)
    pixels = picture(50, 40, RGB8)[None]
    outputs = session.evaluate_features({"x": pixels}).outputs
    np.testing.assert_array_equal(outputs["y"].to_numpy(), run(built(source), x=pixels))  # type: ignore[attr-defined]


def test_metadata_stay_where_another_image_needs_them(tmp_path: Path) -> None:
    ends = [tensor(name, [1, 3, 8, 9], FLOAT, "IMAGE") for name in ("a", "b", "c")]
    nodes = [helper.make_node("Identity", ["a"], ["c"]), helper.make_node("Identity", ["b"], ["d"])]
    outputs = [ends[2], tensor("d", [1, 3, 8, 9])]
    source = saved(tmp_path, data(nodes, ends[:2], outputs, metadata=ImageContract.inception().to_metadata()))
    features = LearningModel.load(built(source, inputs=["a"])).input_features
    assert isinstance(features[0], TensorFeatureDescriptor)
    assert isinstance(features[1], ImageFeatureDescriptor)
    both = built(source)
    assert LearningModel.load(both).output_features[0].contract == ImageContract.inception()  # type: ignore[attr-defined]
    first, second = picture(20, 30, RGB8), picture(41, 7, RGB8)
    found = ort.InferenceSession(both).run(None, {"a": first, "b": second})
    for pixels, output in zip((first, second), found, strict=True):
        alone = built(saved(tmp_path, unary(shape=(1, 3, 8, 9))), ImageContract.inception())
        np.testing.assert_array_equal(run(alone, x=pixels), output)


def test_what_an_exporter_says_is_built_in(tmp_path: Path) -> None:
    metadata = {"author": "Ultralytics", "task": "detect", "imgsz": "[32, 64]", "names": "{0: 'cat'}"}
    source = saved(tmp_path, unary(shape=(1, 3, "h", "w"), metadata=metadata))
    made = built(source)
    assert run(made, x=picture(50, 40, RGB8)).shape == (1, 3, 32, 64)
    assert isinstance(LearningModel.load(made).input_features[0], TensorFeatureDescriptor)
    assert LearningModel.load(made).labels == ("cat",)


def test_graphs_inside_of_nodes_read_the_tensor(tmp_path: Path) -> None:
    branches = [
        helper.make_graph(
            [helper.make_node(operator, ["x"], [operator])], "branch", [], [tensor(operator, [1, 3, 4, 4])]
        )
        for operator in ("Neg", "Identity")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [tensor("x", [1, 3, 4, 4]), tensor("c", [], TensorProto.BOOL)]
    source = saved(tmp_path, data([node], inputs, [tensor("y", [1, 3, 4, 4])]))
    pixels = picture(4, 4, RGB8)
    found = run(built(source, RGB), x=pixels, c=np.array(True))
    np.testing.assert_array_equal(found[0], -pixels.transpose(2, 0, 1).astype(np.float32))


def test_names_of_the_model_are_left_alone(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["x/picture/tensor"], "x/picture/Shape_0"),
        helper.make_node("Neg", ["x/picture/tensor"], ["y"]),
    ]
    source = saved(tmp_path, data(nodes, [tensor("x", [1, 3, 4, 4])], [tensor("y", [1, 3, 4, 4])]))
    pixels = picture(4, 4, RGB8)
    np.testing.assert_array_equal(run(built(source, RGB), x=pixels)[0], pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("opset", [9, 12])
def test_older_operator_sets_are_converted(opset: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Squeeze", ["x"], ["s"], axes=[0]),
        helper.make_node("Unsqueeze", ["s"], ["u"], axes=[0]),
        helper.make_node("Softmax", ["u"], ["y"], axis=1),
    ]
    ends = [tensor("x", [1, 3, 4, 4], FLOAT, "IMAGE"), tensor("other", [1, 3, 4, 4], FLOAT, "IMAGE")]
    outputs = [tensor("y", [1, 3, 4, 4]), tensor("z", [1, 3, 4, 4])]
    nodes.append(helper.make_node("Identity", ["other"], ["z"]))
    source = saved(tmp_path, data(nodes, ends, outputs, opset=opset, ir_version=6))
    pixels, other = picture(4, 4, RGB8), np.ones((1, 3, 4, 4), np.float32)
    planes = pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255
    wanted = run(source, x=planes, other=other)
    made = built(source, ImageContract(RGB8, pixel_range=1), inputs=["x"])
    np.testing.assert_array_equal(run(made, x=pixels, other=other), wanted)
    assert onnx.load(made).graph.input[1].type.denotation == "IMAGE"


def test_weights_of_old_files_need_not_be_inputs(tmp_path: Path) -> None:
    """Before IR 4 they had to; runtimes take files of exporters that did not keep to it."""
    weights = {"w": np.random.default_rng(0).random((2, 3, 3, 3), np.float32)}
    inputs, outputs = [tensor("x", [1, 3, 4, 4], FLOAT, "IMAGE")], [tensor("y", [1, 2, 2, 2])]
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    source = saved(tmp_path, data([node], inputs, outputs, weights, opset=9, ir_version=3))
    pixels = picture(4, 4, RGB8)
    wanted = run(source, x=pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255)
    built_in = built(source, ImageContract(RGB8, pixel_range=1), inputs=["x"])
    np.testing.assert_allclose(run(built_in, x=pixels), wanted, atol=1e-5)


def test_what_cannot_be_converted_is_refused_by_name(tmp_path: Path) -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "b", [], [tensor("b", [1, 3, 4, 4])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    inputs = [tensor("x", [1, 3, 4, 4]), tensor("c", [], TensorProto.BOOL)]
    nested = data([node], inputs, [tensor("y", [1, 3, 4, 4])], opset=11)
    with pytest.raises(NotSupportedError, match="require operator set 13, but the model has 11"):
        build_in(saved(tmp_path, nested), tmp_path / "none.onnx", RGB)
    unknown = unary("NoSuchOperator", (1, 3, 4, 4), opset=11)
    with pytest.raises(NotSupportedError, match="cannot be converted"):
        build_in(saved(tmp_path, unknown), tmp_path / "none.onnx", RGB)
    assert not (tmp_path / "none.onnx").exists()


def test_a_model_without_onnx_operators_gets_them(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")]
    ends = [tensor(name, [1, 3, 4, 4]) for name in "xy"]
    whole = model(nodes, ends[:1], ends[1:], domains={"com.microsoft": 1})
    del whole.opset_import[0]
    target = tmp_path / "built.onnx"
    build_in(saved(tmp_path, whole.SerializeToString()), target, RGB)
    assert run(target, x=picture(4, 4, RGB8)).shape == (1, 3, 4, 4)


@pytest.mark.parametrize(
    ("shape", "contract", "options", "error", "words"),
    [
        ((1, 3, 4, 4), None, {}, InvalidArgumentError, "No input of the model has an image contract"),
        ((1, 3, 4, 4), None, {"inputs": ["z"]}, InvalidArgumentError, "The input z has no image contract"),
        ((1, 3, 4, 4), RGB, {"inputs": ["z"]}, InvalidArgumentError, "The model has no input z"),
        ((1, 3), RGB, {}, InvalidArgumentError, "No input is a tensor of RGB8 pictures"),
        ((1, 3, 4, 4), RGB, {"pictures": BitmapPixelFormat.NV12}, InvalidArgumentError, "does not support .*NV12"),
        ((1, 3, "h", "w"), ImageContract.imagenet(), {}, InvalidArgumentError, "A crop ratio requires the tensor size"),
        ((1, 3, 4, 4), ImageContract(RGB8, size=(5, 5)), {}, InvalidBindingError, "the image contract specifies 5"),
    ],
)
def test_what_is_refused(
    shape: tuple[int, ...], contract: ImageContract, options: dict[str, Any], error: type, words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        build_in(saved(tmp_path, unary(shape=shape)), tmp_path / "none.onnx", contract, **options)
    assert not (tmp_path / "none.onnx").exists()


def test_what_the_model_itself_refuses(tmp_path: Path) -> None:
    metadata = ImageContract(GRAY8).to_metadata()
    source = saved(tmp_path, unary(shape=(1, 3, 4, 4), denotation="IMAGE", metadata=metadata))
    with pytest.raises(InvalidArgumentError, match="No input is a tensor of GRAY8 pictures"):
        build_in(source, tmp_path / "none.onnx")
    x, y = (tensor(name, [1, 3, 4, 4]) for name in "xy")
    source = saved(tmp_path, data([helper.make_node("Identity", ["x"], ["y"])], [x], [y, x]))
    with pytest.raises(NotSupportedError, match="The input x is also an output"):
        build_in(source, tmp_path / "none.onnx", RGB)
