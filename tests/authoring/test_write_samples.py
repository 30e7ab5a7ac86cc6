"""Samples whose answers are known: what is stored, what is found out on any engine, and what is not believed."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from helpers.cli import call
from helpers.models import data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.planted import rename_output
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    Precision,
)
from winml_py.authoring import build_in, check_samples, write_contract, write_samples
from winml_py.authoring.known_answers import KEY, KnownAnswer, KnownInput, KnownOutput, find_leader, read_answers
from winml_py.authoring.write_samples import make_small_png
from winml_py.errors import WinMLError

SHAPES = PICTURES / "shapes.png"


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """The detector of shapes, with a picture and a made-up one."""
    target = tmp_path / "known.onnx"
    write_samples(MODELS / "shapes.onnx", target, [SHAPES, {}])
    return target


def with_weights(path: Path, name: str, factor: float) -> LearningModel:
    """The model with a weight multiplied."""
    model = onnx.load(path)
    weight = next(weight for weight in model.graph.initializer if weight.name == name)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(factor), name))
    return LearningModel.load(model.SerializeToString())


def logits(folder: Path, bias: np.ndarray[Any, Any]) -> Path:
    """A model that gives numbers of its own for zeros."""
    path, weights = folder / "logits.onnx", np.zeros((4, bias.size), np.float32)
    node = helper.make_node("Gemm", ["x", "weights", "bias"], ["scores"])
    scores = tensor("scores", [1, bias.size])
    path.write_bytes(data([node], [tensor("x", [1, 4])], [scores], {"weights": weights, "bias": bias}))
    return path


def with_metadata(path: Path, **metadata: str) -> LearningModel:
    """The model with other metadata; a dot in a key is written as two underscores."""
    model = onnx.load(path)
    entries = {entry.key: entry.value for entry in model.metadata_props}
    helper.set_model_props(model, entries | {key.replace("__", "."): text for key, text in metadata.items()})
    return LearningModel.load(model.SerializeToString())


class TestWhatIsStored:
    def test_numbers_of_raw_onnxruntime(self, known: Path) -> None:
        import onnxruntime

        model = LearningModel.load(known)
        picture, made_up = read_answers(model.metadata)
        assert picture.answer.startswith("3 found: circle")
        raw = onnxruntime.InferenceSession(MODELS / "shapes.onnx")
        for answer in (picture, made_up):
            value = answer.inputs["image"].make_value()
            pixels = value.video_frame.software_bitmap.to_pil()
            tensor_in = _letterboxed(pixels)
            (given,) = raw.run(None, {"image": tensor_in})
            (output,) = answer.outputs
            assert output.shape == given.shape
            np.testing.assert_allclose(
                np.array(output.values), given.reshape(-1)[list(output.positions)], atol=5e-3 * max(output.scales)
            )
            assert output.mean[0] == pytest.approx(given.mean(), rel=5e-3)
            assert len(output.positions) <= 40

    def test_a_picture_is_scaled_down_and_has_no_exif(self, tmp_path: Path, cat: Path) -> None:
        exif = Image.Exif()
        exif[0x010F] = "a camera of mine"
        Image.open(cat).save(tmp_path / "private.jpg", exif=exif)
        target = tmp_path / "known.onnx"
        (answer,) = write_samples(MODELS / "edges.onnx", target, [tmp_path / "private.jpg"])
        png = answer.inputs["image"].png
        assert png is not None
        assert 20_000 < len(png) <= 32_000
        with Image.open(io.BytesIO(png)) as small, Image.open(cat) as large:
            assert small.format == "PNG"
            assert small.width / small.height == pytest.approx(large.width / large.height, rel=0.02)
            assert not small.getexif()
        assert b"a camera of mine" not in target.read_bytes()
        assert b"private" not in target.read_bytes()
        assert len(LearningModel.load(target).metadata[KEY]) < 64 << 10

    def test_eight_pictures_fit(self, tmp_path: Path, cat: Path) -> None:
        target = tmp_path / "known.onnx"
        write_samples(MODELS / "edges.onnx", target, [cat] * 8)
        model = LearningModel.load(target)
        assert 50_000 < len(model.metadata[KEY]) <= 65_536
        assert check_samples(model).is_right
        with pytest.raises(InvalidArgumentError, match="at most 8 samples, got 9"):
            write_samples(MODELS / "edges.onnx", target, [cat] * 9)

    def test_the_pictures_of_a_sample_share_its_bytes(self, tmp_path: Path, cat: Path) -> None:
        source = tmp_path / "two.onnx"
        inputs = [tensor(name, [1, 3, "h", "w"], denotation="IMAGE") for name in ("a", "b")]
        nodes = [helper.make_node("ReduceMean", [name], [f"{name}2"]) for name in ("a", "b")]
        source.write_bytes(data(nodes, inputs, [tensor(f"{name}2", [1, 1, 1, 1]) for name in ("a", "b")]))
        (answer,) = write_samples(source, tmp_path / "known.onnx", [{"a": cat, "b": Image.open(cat)}])
        assert all(10_000 < len(known.png or b"") <= 16_000 for known in answer.inputs.values())

    def test_new_ones_take_the_place_of_all_and_none_takes_them_away(self, known: Path) -> None:
        write_samples(known, known, [{}], force=True)
        assert len(read_answers(LearningModel.load(known).metadata)) == 1
        write_samples(known, known, [], force=True)
        before, after = onnx.load(MODELS / "shapes.onnx"), onnx.load(known)
        assert KEY not in {entry.key for entry in after.metadata_props}
        assert after.graph == before.graph

    def test_made_up_values_are_the_same_for_ever(self) -> None:
        """Models with samples are out there: other numbers would make all of them wrong."""
        numbers = KnownInput(seed=3, shape=(2, 2), dtype="float32").make_value()
        np.testing.assert_array_equal(
            numbers, np.array([[0.1759691, 0.7210452], [-0.7243272, 0.037507925]], np.float32)
        )
        picture = KnownInput(seed=0, shape=(2, 3), dtype="picture").make_value().to_numpy()
        assert picture.shape == (2, 3, 3)
        assert picture.reshape(-1)[:6].tolist() == [193, 145, 130, 185, 155, 141]

    def test_arrays_and_texts_come_back(self) -> None:
        for value in (np.arange(6, dtype=np.int64).reshape(2, 3), np.array([[1.5, np.nan]], np.float16)):
            again = KnownInput.from_json(json.loads(json.dumps(KnownInput(array=value).to_json()))).make_value()
            np.testing.assert_array_equal(again, value)
            assert again.dtype == value.dtype
        words = np.array([["a", "ö"]], object)
        again = KnownInput.from_json(json.loads(json.dumps(KnownInput(array=words).to_json()))).make_value()
        assert again.tolist() == [["a", "ö"]]


def _letterboxed(picture: Image.Image) -> np.ndarray:
    """The tensor of a picture, by a slow hand: it fits into 128 x 128, gray around it."""
    import cv2

    width, height = picture.size
    scale = 128 / max(picture.size)
    inner = cv2.resize(
        np.asarray(picture.convert("RGB")), (round(width * scale), round(height * scale)), interpolation=1
    )
    whole = np.full((128, 128, 3), 114, np.uint8)
    top, left = (128 - inner.shape[0]) // 2, (128 - inner.shape[1]) // 2
    whole[top : top + inner.shape[0], left : left + inner.shape[1]] = inner
    return (whole.astype(np.float32) / 255).transpose(2, 0, 1)[None]


class TestCheck:
    def test_an_unchanged_model_is_right(self, known: Path) -> None:
        check = check_samples(LearningModel.load(known))
        assert (check.is_right, check.problems, check.engine) == (True, (), "onnxruntime")
        assert check.largest_difference < 1e-6
        assert [answer.is_right for answer in check.answers] == [True, True]

    def test_openvino_is_right(self, known: Path, openvino: object) -> None:
        options = LearningModelSessionOptions()
        options.engine = "openvino"
        check = check_samples(LearningModelSession(LearningModel.load(known), options=options))
        assert (check.is_right, check.precision, check.engine) == (True, Precision.FLOAT32, "openvino"), check.problems

    def test_a_gpu_is_right(self, known: Path, gpu: LearningModelDevice) -> None:
        check = check_samples(LearningModelSession(LearningModel.load(known), gpu))
        assert check.is_right, check.problems

    @pytest.mark.parametrize("name", ["down.0.weight", "side.1.bias"])
    def test_a_changed_weight_is_found_out(self, known: Path, name: str) -> None:
        check = check_samples(with_weights(known, name, 1.05))
        assert not check.is_right
        first = check.problems[0]
        assert first.startswith("boxes: ")
        assert "of its largest numbers; " in first

    @pytest.mark.parametrize("metadata", [{"Image__BitmapPixelFormat": "Bgr8"}, {"Image__Scaling": "stretch"}])
    def test_another_contract_is_found_out(self, known: Path, metadata: dict[str, str]) -> None:
        wide = known.with_name("wide.png")
        Image.open(SHAPES).resize((200, 100)).save(wide)
        write_samples(known, known, [wide], force=True)
        assert not check_samples(with_metadata(known, **metadata)).is_right

    def test_the_best_class_is_told(self, tmp_path: Path, seven: Path) -> None:
        target = tmp_path / "digits.onnx"
        given = [seven, *({"image": value} for value in (seven, seven.read_bytes(), Image.open(seven)))]
        answer, *others = write_samples(MODELS / "digits.onnx", target, given)
        assert others == [answer] * 3
        (answer,) = write_samples(MODELS / "digits.onnx", target, [seven])
        assert answer.outputs[0].best == 7
        assert answer.answer.startswith("7 0.87, 5 0.05")
        model = onnx.load(target)
        bias = next(weight for weight in model.graph.initializer if numpy_helper.to_array(weight).shape == (10,))
        bias.CopyFrom(numpy_helper.from_array(np.eye(10, dtype=np.float32)[2] * 100, bias.name))
        (problem,) = check_samples(LearningModel.load(model.SerializeToString())).problems
        assert problem.endswith("; the best class was 7 and is now 2")

    @pytest.mark.parametrize(
        ("lead", "changed", "is_right"),
        [
            (0.1, 0.15, False),
            (0.005, 0.01, True),  # 0.05 % of the largest magnitude
            (0.1, np.nan, False),
        ],
    )
    def test_another_best_class_whose_number_is_not_kept(
        self, lead: float, changed: float, is_right: bool, tmp_path: Path
    ) -> None:
        bias = np.linspace(-10, 4, 1000, dtype=np.float32)
        bias[3] = 5
        (answer,) = write_samples(logits(tmp_path, bias), tmp_path / "known.onnx", [{}])
        other = next(index for index in range(500, 1000) if index not in answer.outputs[0].positions)
        bias[other] = 5 - lead
        (answer,) = write_samples(logits(tmp_path, bias), tmp_path / "known.onnx", [{}])
        assert other not in answer.outputs[0].positions
        assert (answer.outputs[0].best, answer.outputs[0].lead) == (3, pytest.approx(lead / 10, rel=0.01))
        damaged = onnx.load(tmp_path / "known.onnx")
        bias[other] += changed
        weight = next(weight for weight in damaged.graph.initializer if weight.name == "bias")
        weight.CopyFrom(numpy_helper.from_array(bias, "bias"))
        assert bias.argmax() == other
        check = check_samples(LearningModel.load(damaged.SerializeToString()))
        assert check.is_right is is_right
        if np.isnan(changed):
            assert check.problems == ("scores: NaN or infinity where numbers are expected, or the reverse",)
        elif not is_right:
            assert check.problems == (f"scores: the best class was 3 and is now {other}",)

    def test_the_tolerance_of_half_precision_is_compared_with_the_lead(self) -> None:
        scores = np.array([[10.0, 9.9, 0.0]], np.float32)
        output = KnownOutput("y", (1, 3), "float", (2,), (0.0,), (10.0,), (6.633, 6.633), 1e-3, 0, 0.01)
        came = scores[:, [1, 0, 2]]
        assert output.compare(came, 0.0)[1] == "y: the best class was 0 and is now 1"
        assert output.compare(came, 0.02)[1] == ""

    def test_a_class_that_a_gray_level_changes_has_no_lead(self, tmp_path: Path) -> None:
        target = tmp_path / "known.onnx"
        target.write_bytes(
            data(
                [helper.make_node("ReduceMean", ["image", "axes"], ["scores"], keepdims=0)],
                [tensor("image", [1, 3, 32, 32], denotation="IMAGE")],
                [tensor("scores", [1, 3])],
                {"axes": np.array([2, 3])},
                opset=18,
            )
        )
        for side, level, wanted in ((1, 101, [0, 0, 1 / 32**2 / 100]), (32, 110, [10 / 110] * 3)):
            leads = []
            for channel in range(3):  # which are moved differently: one of them is the largest then
                pixels = np.full((32, 32, 3), 100, np.uint8)
                pixels[:side, :side, channel] = level
                picture = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
                (answer,) = write_samples(target, target, [{"image": picture}], force=True)
                leads.append(answer.outputs[0].lead)
            assert sorted(leads) == pytest.approx(wanted, rel=0.01)

    def test_another_interface_is_told(self, known: Path) -> None:
        model = onnx.load(known)
        model.graph.input[0].name = "picture"
        for node in model.graph.node:
            node.input[:] = ["picture" if name == "image" else name for name in node.input]
        first, *_ = check_samples(LearningModel.load(model.SerializeToString())).problems
        assert first == "the sample was taken from a model with the inputs image"
        model = onnx.load(known)
        rename_output(model, "raw")
        first, *_ = check_samples(LearningModel.load(model.SerializeToString())).problems
        assert first == "the output boxes no longer exists"

    def test_a_float16_conversion_has_the_tolerance_of_half_precision(self, tmp_path: Path, seven: Path) -> None:
        target, half = tmp_path / "digits.onnx", tmp_path / "half.onnx"
        write_samples(MODELS / "digits.onnx", target, [seven])
        assert call("convert", target, "--output", half).exit_code == 0
        assert check_samples(LearningModel.load(half)).is_right

    def test_a_model_without_samples_is_an_error(self) -> None:
        with pytest.raises(InvalidArgumentError, match=r"has no samples .* write_samples.* contract --sample PICTURE"):
            check_samples(LearningModel.load(MODELS / "digits.onnx"))


def know(folder: Path, content: bytes, sample: dict[str, Any]) -> tuple[KnownAnswer, ...]:
    """The answers of a model for a sample, which it must still give."""
    source, target = folder / "model.onnx", folder / "known.onnx"
    source.write_bytes(content)
    answers = write_samples(source, target, [sample])
    assert check_samples(LearningModel.load(target)).is_right
    return answers


class TestOtherModels:
    @pytest.mark.parametrize("element", [TensorProto.INT64, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.UINT8])
    def test_numbers_of_every_type(self, element: int, tmp_path: Path) -> None:
        value = np.arange(6).reshape(3, 2).astype(helper.tensor_dtype_to_np_dtype(element))
        (answer,) = know(tmp_path, unary("Identity", shape=(3, 2), element=element), {"x": value})
        assert answer.outputs[0].values == (0, 1, 2, 3, 4, 5)

    def test_whole_numbers_must_be_equal(self, tmp_path: Path) -> None:
        ends = [tensor(name, [2], TensorProto.INT64) for name in "xy"]
        node = helper.make_node("Add", ["x", "one"], ["y"])
        know(tmp_path, data([node], ends[:1], ends[1:], {"one": np.int64(1)}), {"x": [5, 6]})
        model = onnx.load(tmp_path / "known.onnx")
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(2), "one"))
        (problem,) = check_samples(LearningModel.load(model.SerializeToString())).problems
        assert problem == "y: 7, not 6, and 1 more"

    @pytest.mark.parametrize("kind", ["map", "mask", "number"])
    @pytest.mark.parametrize("name", ["UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64"])
    def test_classes_of_every_integer_type_must_be_equal(self, name: str, kind: str, tmp_path: Path) -> None:
        """Colours of a picture's pixels, whether they are the first one, or how many there are; each shifted by one."""
        element, y = TensorProto.DataType.Value(name), {"map": "classes", "mask": "is_first", "number": "count"}[kind]
        nodes = [
            helper.make_node("ArgMax", ["x"], ["classes"], axis=1, keepdims=0),
            helper.make_node("Equal", ["classes", "zero"], ["first"]),
            helper.make_node("Cast", ["first"], ["is_first"], to=TensorProto.INT64),
            helper.make_node("ReduceMax", ["classes"], ["count"], keepdims=0),
            helper.make_node("Add", [y, "shift"], ["shifted"]),
            helper.make_node("Cast", ["shifted"], ["y"], to=element),
        ]
        ends = [tensor("x", [1, 3, 32, 32], denotation="IMAGE"), tensor("y", None, element)]
        weights = {"zero": np.int64(0), "shift": np.int64(0)}
        pixels = np.zeros((32, 32, 3), np.uint8)
        for channel, columns in enumerate((slice(0, 10), slice(10, 20), slice(20, 32))):
            pixels[:, columns, channel] = 200
        picture = ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8)
        (answer,) = know(tmp_path, data(nodes, ends[:1], ends[1:], weights), {"x": picture})
        assert answer.outputs[0].kind == "exact"
        model = onnx.load(tmp_path / "known.onnx")
        model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.int64(1), "shift"))
        (problem,) = check_samples(LearningModel.load(model.SerializeToString())).problems
        assert problem.startswith("y: ")

    @pytest.mark.parametrize("number", [3.0, 3127.0])
    def test_a_class_number_in_a_float_must_be_equal(self, number: float, tmp_path: Path) -> None:
        nodes = [helper.make_node("ArgMax", ["x"], ["i"]), helper.make_node("Cast", ["i"], ["c"], to=TensorProto.FLOAT)]
        nodes.append(helper.make_node("Add", ["c", "first"], ["y"]))
        ends = [tensor("x", [2, 3]), tensor("y", [1, 3])]
        know(tmp_path, data(nodes, ends[:1], ends[1:], {"first": np.float32(number)}), {})
        model = onnx.load(tmp_path / "known.onnx")
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32(number + 1), "first"))
        assert not check_samples(LearningModel.load(model.SerializeToString())).is_right

    def test_levels_of_a_picture_may_be_one_off(self, tmp_path: Path, cat: Path) -> None:
        nodes = [
            helper.make_node("Add", ["x", "shift"], ["shifted"]),
            helper.make_node("Clip", ["shifted", "black", "white"], ["clipped"]),
            helper.make_node("Round", ["clipped"], ["rounded"]),
            helper.make_node("Cast", ["rounded"], ["y"], to=TensorProto.UINT8),
        ]
        ends = [tensor("x", [1, 1, 64, 64], denotation="IMAGE"), tensor("y", [1, 1, 64, 64], TensorProto.UINT8)]
        weights = {"shift": np.float32(0), "black": np.float32(0), "white": np.float32(255)}
        gray = ImageFeatureValue.from_pil(Image.open(cat).convert("L").resize((64, 64)))
        metadata = ImageContract(BitmapPixelFormat.GRAY8).to_metadata()
        (answer,) = know(tmp_path, data(nodes, ends[:1], ends[1:], weights, metadata=metadata), {"x": gray})
        assert answer.outputs[0].kind == "byte"
        model = onnx.load(tmp_path / "known.onnx")
        for shift in (1, 2):
            model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32(shift), "shift"))
            assert check_samples(LearningModel.load(model.SerializeToString())).is_right is (shift == 1)

    def test_texts(self, tmp_path: Path) -> None:
        source = unary("Identity", shape=(2,), element=TensorProto.STRING)
        know(tmp_path, source, {"x": np.array(["a", "b"], object)})
        with pytest.raises(InvalidArgumentError, match="No example values can be generated"):
            know(tmp_path, source, {})

    def test_unusual_models_have_answers(self, tmp_path: Path) -> None:
        x, y = tensor("x", [3]), tensor("y", [3])
        know(tmp_path, data([helper.make_node("Neg", ["x"], ["y"])], [x], [x, y]), {"x": np.float32([1, 2, 3])})
        know(tmp_path, unary("Neg", shape=(2, 3, 8, 8), denotation="IMAGE"), {})  # a fixed batch is made up
        know(tmp_path, unary("Neg", shape=(64, 2)), {"x": np.float32([[1e-29, 0]] * 64)})
        # As of a detector that finds nothing.
        node = helper.make_node("Slice", ["x", "zero", "zero", "zero"], ["y"])
        ends = [tensor("x", ["n", 3]), tensor("y", ["m", 3])]
        empty = data([node], ends[:1], ends[1:], {"zero": np.array([0])})
        (answer,) = know(tmp_path, empty, {"x": np.ones((2, 3), np.float32)})
        assert answer.outputs[0].shape == (0, 3)

    def test_a_random_model_has_no_known_answer(self, tmp_path: Path) -> None:
        ends = [tensor(name, [2, 3]) for name in "xy"]
        nodes = [helper.make_node("RandomNormalLike", ["x"], ["y"])]
        (tmp_path / "random.onnx").write_bytes(data(nodes, ends[:1], ends[1:]))
        with pytest.raises(InvalidArgumentError, match="output y differs in each evaluation"):
            write_samples(tmp_path / "random.onnx", tmp_path / "known.onnx", [{}])
        assert not (tmp_path / "known.onnx").exists()

    def test_an_answer_that_a_level_changes_is_not_known(self, tmp_path: Path, seven: Path) -> None:
        """The largest of nearly equal numbers: which one it is changes from machine to machine."""
        ends = [tensor("x", [1, 3, 16, 16]), tensor("y", [1, 3, 16], TensorProto.INT64)]
        (tmp_path / "argmax.onnx").write_bytes(
            data([helper.make_node("ArgMax", ["x"], ["y"], axis=3, keepdims=0)], *([e] for e in ends))
        )
        write_contract(tmp_path / "argmax.onnx", tmp_path / "c.onnx", ImageContract())
        Image.new("RGB", (16, 16), (90, 90, 90)).save(tmp_path / "flat.png")
        with pytest.raises(InvalidArgumentError, match="when its pixels change by one level, y changes"):
            write_samples(tmp_path / "c.onnx", tmp_path / "known.onnx", [tmp_path / "flat.png"])

    def test_a_plain_picture_of_millions_of_pixels(self, tmp_path: Path) -> None:
        """Its file is small, whatever its size is."""
        Image.new("RGB", (3840, 2160), "white").save(tmp_path / "white.png")
        assert (tmp_path / "white.png").stat().st_size < 32_000
        write_samples(MODELS / "digits.onnx", tmp_path / "known.onnx", [tmp_path / "white.png"])
        assert check_samples(LearningModel.load(tmp_path / "known.onnx")).is_right

    @pytest.mark.parametrize("size", [(1, 300_000), (300_000, 1)])
    def test_a_picture_of_one_pixel_in_width_or_height(self, size: tuple[int, int], tmp_path: Path) -> None:
        image = Image.effect_noise(size, 80)
        png = make_small_png(image, 8_000)
        assert len(png) <= 8_000
        assert min(Image.open(io.BytesIO(png)).size) == 1
        image.save(tmp_path / "thin.png")
        source, target = tmp_path / "bytes.onnx", tmp_path / "known.onnx"
        source.write_bytes(unary(shape=(1, 3, "h", "w")))
        build_in(source, source, ImageContract(), force=True)
        (answer,) = write_samples(source, target, [tmp_path / "thin.png"])
        stored = answer.inputs["x"].array
        assert stored is not None
        assert 20_000 < stored.size <= 32_000

    def test_what_is_nan_everywhere_is_no_answer(self, tmp_path: Path) -> None:
        (tmp_path / "log.onnx").write_bytes(unary("Log", shape=(2,)))
        with pytest.raises(InvalidArgumentError, match="or the output is entirely NaN"):
            write_samples(tmp_path / "log.onnx", tmp_path / "known.onnx", [{"x": np.float32([-1, -2])}])

    def test_the_keys_of_a_map_are_known(self, tmp_path: Path) -> None:
        def zipped(*words: str) -> bytes:
            kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(1, []))
            output = helper.make_value_info("y", helper.make_sequence_type_proto(kind))
            node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=list(words))
            graph = helper.make_graph([node], "g", [tensor("x", [1, 3])], [output])
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
            return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())

        source, target = tmp_path / "zip.onnx", tmp_path / "known.onnx"
        source.write_bytes(zipped("ant", "bee", "cat"))
        (answer,) = write_samples(source, target, [{"x": np.float32([[0.1, 0.7, 0.2]])}])
        assert answer.answer == "bee 0.70, cat 0.20, ant 0.10"
        metadata = onnx.load(target).metadata_props
        other = onnx.load_model_from_string(zipped("ant", "bee", "dog"))
        other.metadata_props.extend(metadata)
        (problem,) = check_samples(LearningModel.load(other.SerializeToString())).problems
        assert problem == "y[0], keys: 'dog', not 'cat'"

    def test_built_in_nodes_take_the_samples_away(self, known: Path) -> None:
        """They were of pictures, which the model takes no more."""
        target = known.with_name("built.onnx")
        assert call("contract", known, "--build-in", "--output", target).exit_code == 0
        assert read_answers(LearningModel.load(target).metadata) == ()

    def test_values_that_do_not_fit(self, tmp_path: Path, seven: Path) -> None:
        target = tmp_path / "known.onnx"
        wrong = [
            ({"nope": 1}, "no input nope"),
            ({1: 2, "zz": 3}, "no input 1, zz"),
            (7, "Expected the path of a picture"),
            (PICTURES, "got the folder"),
            ({"image": [[1], [1, 2]]}, "The rows of a tensor must have one length"),
        ]
        with pytest.raises(InvalidArgumentError, match="Expected a list of samples"):
            write_samples(MODELS / "digits.onnx", target, "seven.png")
        for sample, words in wrong:
            with pytest.raises(WinMLError, match=words):
                write_samples(MODELS / "digits.onnx", target, [sample])  # type: ignore[list-item]
        big = np.zeros((1, 3, 400, 400), np.float32)
        with pytest.raises(InvalidArgumentError, match="characters of the model's metadata; at most 65,536"):
            write_samples(MODELS / "edges.onnx", target, [{"image": big}])
        assert not target.exists()


OUTPUT = KnownOutput("y", (2,), "float", (0, 1), (1.0, 2.0), (1.0, 1.0))


def read_samples(value: object = None, change: dict[str, object] | None = None, count: int = 1) -> None:
    """Reads samples of an input's value and a changed output."""
    inputs = {"x": value or {"seed": 0, "shape": [4], "dtype": "float32"}}
    sample = {"inputs": inputs, "outputs": [OUTPUT.to_json() | (change or {})], "answer": ""}
    read_answers({KEY: json.dumps({"version": 1, "samples": [sample] * count})})


def test_eight_samples_are_read() -> None:
    read_samples(count=8)
    with pytest.raises(InvalidArgumentError, match="expected at most 8, got 9"):
        read_samples(count=9)


@pytest.mark.parametrize(
    "text",
    [
        *("", "7", "[]", "{}", '{"version": 9, "samples": []}', '{"version": 1, "samples": 3}'),
        *("[" * 100_000, " " * 70_000),
    ],
)
def test_what_is_no_sample(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="samples cannot be read"):
        read_answers({KEY: text})


@pytest.mark.parametrize(
    "change",
    [
        *({"positions": [0, 10**12]}, {"positions": [0]}, {"shape": [-1, 7]}, {"kind": "other"}, {"mean": []}),
        *({"scales": [0.0, 0.0]}, {"scales": [5e-324] * 2}, {"values": ["x", "y"]}, {"values": [10**400] * 2}),
    ],
)
def test_hostile_numbers_are_no_answer(change: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match="samples cannot be read"):
        read_samples(change=change)


@pytest.mark.parametrize(
    "value",
    [
        {"seed": 0, "shape": [1 << 20, 1 << 20], "dtype": "float32"},
        {"seed": 0, "shape": [-1], "dtype": "float32"},
        {"seed": 0, "shape": [4], "dtype": "object"},
        {"seed": 0, "shape": [4], "dtype": "(,,)f4"},
        {"seed": 0, "shape": [0, 10**30], "dtype": "float32"},
        {"seed": 0, "shape": [4096, 4096], "dtype": "picture"},
        {"seed": 1 << 40, "shape": [4], "dtype": "float32"},
        {"seed": -1, "shape": [4, 4], "dtype": "picture"},
        {"seed": 0, "shape": [4], "dtype": "picture"},
        {"bytes": "AAAA", "shape": [4], "dtype": "float32"},
        {"png": base64.b64encode(b"no picture").decode()},
        {"png": "no base64"},
        {"png": None},
    ],
)
def test_hostile_inputs_are_no_sample(value: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match="samples cannot be read"):
        read_samples(value)


def test_another_type_and_nan_alone_are_problems() -> None:
    output = KnownOutput("y", (2,), "float", (0,), (1.0,), (1.0,), (1.0, 1.0), 1e-3, 0)
    assert output.compare(np.array(["a", "b"], object), 0.0)[1] == "y has a different type: object"
    assert "NaN or infinity" in output.compare(np.full(2, np.nan, np.float32), 0.0)[1]


def test_a_damaged_picture_is_a_problem_of_the_check(known: Path) -> None:
    facts = json.loads(LearningModel.load(known).metadata[KEY])
    png = base64.b64decode(facts["samples"][0]["inputs"]["image"]["png"])
    facts["samples"][0]["inputs"]["image"] = {"png": base64.b64encode(png[:100]).decode()}
    model = with_metadata(known, **{KEY.replace(".", "__"): json.dumps(facts)})
    (problem,) = check_samples(model).problems
    assert problem.startswith("it cannot be evaluated: ")


def test_numbers_that_are_not_finite() -> None:
    array = np.array([[1.0, -np.inf, np.nan]], np.float32)
    output = KnownOutput("y", (1, 3), "float", (0, 1, 2), (1.0, -np.inf, np.nan), (1.0,) * 3, (1.0, 1.0), 1e-3)
    again = KnownOutput.from_json(json.loads(json.dumps(output.to_json(), allow_nan=False)))
    assert again.compare(array, 0.0) == (0.0, "")
    assert "NaN or infinity" in again.compare(np.array([[1.0, 2.0, np.nan]], np.float32), 0.0)[1]
    assert "NaN or infinity" in again.compare(np.array([[np.nan, -np.inf, np.nan]], np.float32), 0.0)[1]


class TestTheCommands:
    def test_write_list_check_and_take_away(self, tmp_path: Path, seven: Path) -> None:
        target = tmp_path / "known.onnx"
        result = call("contract", MODELS / "digits.onnx", "--sample", seven, "--sample", "example", "--output", target)
        assert result.exit_code == 0, result.output
        lines = result.stdout.splitlines()
        assert lines[1].startswith("Sample: image: a picture; 7 0.87")
        assert lines[2].startswith("Sample: image: an example picture of 28x28; ")
        info = call("info", target).stdout
        assert "sample 1" in info
        assert KEY not in info
        result = call("run", target, "--check")
        assert (result.exit_code, result.stderr) == (0, "")
        assert ": right: 2 samples, less than 0.1% away at most, on " in result.stdout
        write_samples(target, target, [], force=True)
        assert read_answers(LearningModel.load(target).metadata) == ()
        result = call("run", target, "--check")
        assert result.exit_code == 4
        assert "has no samples" in result.stderr

    def test_a_sample_of_arrays_holds_with_another_contract(self, tmp_path: Path) -> None:
        target = tmp_path / "known.onnx"
        write_samples(MODELS / "digits.onnx", target, [{"image": np.zeros((1, 1, 28, 28), np.float32)}])
        assert call("contract", target, "--set", "scaling=fit", "--output", target, "--force").stderr == ""
        assert check_samples(LearningModel.load(target)).is_right

    def test_a_sample_that_fails_writes_nothing(self, tmp_path: Path) -> None:
        words = ["--sample", tmp_path / "nope.png", "--output", tmp_path / "known.onnx"]
        assert call("contract", MODELS / "edges.onnx", *words).exit_code == 4
        assert list(tmp_path.iterdir()) == []

    def test_a_wrong_model_ends_with_1(self, known: Path) -> None:
        model = onnx.load(known)
        weight = next(weight for weight in model.graph.initializer if weight.name == "heads.0.weight")
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.05), weight.name))
        known.write_bytes(model.SerializeToString())
        result = call("run", known, "--check")
        assert result.exit_code == 1
        assert ": wrong: 2 of 2 samples, on " in result.stdout
        assert "boxes: " in result.stderr
        facts = json.loads(call("run", known, "--check", "--json").stdout)
        assert facts["results"][0]["check"]["is_right"] is False

    def test_scores_of_which_all_are_left_out_have_no_best(self) -> None:
        assert find_leader(np.full((1, 3), -np.inf, np.float32)) == (-1, 0.0)
        assert find_leader(np.array([[-np.inf, 4.0, -np.inf]], np.float32)) == (1, 2.0)

    def test_what_goes_not_together(self, known: Path, seven: Path) -> None:
        for words in ([seven], ["--top-k", "3"], ["--layout", "none"]):
            result = call("run", known, *words, "--check")
            assert result.exit_code == 2
            assert "--check evaluates the samples stored in MODEL" in result.stderr
