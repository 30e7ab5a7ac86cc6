"""Whether answers change, and whether they are settled: numbers against numpy, and planted changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from helpers import seeing_models as seeing
from helpers.cli import call, require_exit, require_failure
from helpers.models import data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.rectangles import LETTERBOX, make_file
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    LearningModel,
    LearningModelDevice,
    LearningModelEvaluationResult,
    LearningModelSession,
    TensorFloat,
)
from winml_py.authoring import build_in, write_samples
from winml_py.compare import Comparison, compare
from winml_py.compare.comparison import Comparer, match_objects
from winml_py.compare.first_departure import find_departure
from winml_py.perf import tune
from winml_py.testing import FakeDevice
from winml_py.vision import Detections

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
DIGITS = LearningModel.load(MODELS / "digits.onnx")


def compared(pairs: list[tuple[Array, Array]], model: LearningModel | None = None, name: str = "scores") -> Comparison:
    """Compares results of these numbers; for a picture, if a model of pictures is given."""
    comparer = Comparer(model or DIGITS)
    for index, pair in enumerate(pairs):
        if model is None:
            tensors = [TensorFloat.create_from_array(array.shape, array) for array in pair]
            first, second = (LearningModelEvaluationResult("", {name: tensor}) for tensor in tensors)
        else:
            first, second = (see(model, FakeDevice(lambda _, array=array: {name: array})) for array in pair)
        comparer.add(f"{index}.png", (first, second), 1e-3)
    return comparer.make_comparison(({}, {}))


def see(model: LearningModel, device: LearningModelDevice | None = None) -> LearningModelEvaluationResult:
    """The result for a picture."""
    with LearningModelSession(model, device) as session:
        return session.evaluate_features({"x": ImageFeatureValue.load(make_file("landscape"))})


def test_numbers_are_those_of_numpy() -> None:
    first = RNG.normal(size=(3, 1, 4, 5, 6)).astype(np.float32)
    second = first + RNG.normal(scale=0.01, size=first.shape).astype(np.float32)
    (output,) = compared(list(zip(first, second, strict=True)), name="y").outputs
    differences = np.abs(first.astype(np.float64) - second.astype(np.float64))
    assert output.largest == pytest.approx(differences.max())
    relative = differences.max((1, 3, 4)) / np.abs(first.astype(np.float64)).max((1, 3, 4))  # channels of 30 numbers
    assert output.relative == pytest.approx(relative.max())
    assert output.not_finite == (0, 0)
    (same,) = compared([(first, first)], name="y").outputs
    assert (same.largest, same.relative) == (0, 0)


def test_settled_answers_cannot_be_overturned_and_others_can() -> None:
    """By a difference no larger than the one measured over all inputs."""
    first = RNG.dirichlet(np.full(10, 0.3), 400).astype(np.float32)
    second = first + RNG.uniform(-0.05, 0.05, first.shape).astype(np.float32)
    found = compared([(row[None], second_row[None]) for row, second_row in zip(first, second, strict=True)])
    largest = np.abs(first.astype(np.float64) - second).max()
    assert 40 < sum(answer.is_settled for answer in found.answers) < 360
    for row, second_row, answer in zip(first, second, found.answers, strict=True):
        assert answer.difference == pytest.approx(largest)
        assert answer.is_same is bool(row.argmax() == second_row.argmax())
        leads = [np.diff(np.sort(scores.astype(np.float64))[-2:])[0] for scores in (row, second_row)]
        assert answer.lead == pytest.approx(min(leads))
        worst = (row, second_row)[int(np.argmin(leads))].astype(np.float64)
        runner_up, winner = np.argsort(worst)[-2:]
        worst[winner] -= largest
        worst[runner_up] += largest
        assert answer.is_settled is bool(worst[winner] > worst[runner_up])
    changed = sum(not answer.is_same for answer in found.answers)
    assert str(found).startswith(f"{changed} of 400 answers change, ")


def test_one_rough_input_unsettles_all() -> None:
    sure, sure_too = np.float32([[0.7, 0.3]]), np.float32([[0.71, 0.29]])
    assert str(compared([(sure, sure_too)])) == "The answer is the same, 1 settled."
    rough = compared([(sure, sure_too), (np.float32([[0.99, 0.01]]), np.float32([[0.75, 0.25]]))])
    assert [answer.is_settled for answer in rough.answers] == [False, True]
    assert str(rough).startswith("All 2 answers are the same, 1 settled; check 0.png first: its lead of 0.4 is not")
    assert not compared([(np.float32([[0.5, 0.5]]),) * 2]).answers[0].is_settled  # a tie, without any difference


def test_entries_of_batches_and_rows() -> None:
    batch = np.eye(4, 10, dtype=np.float32)
    found = compared([(batch, batch[[0, 1, 2, 0]])]).answers
    assert [(answer.input, answer.is_same) for answer in found] == [(f"0.png[{i}]", i < 3) for i in range(4)]
    assert (found[3].first, found[3].second) == ("3 (1)", "0 (1)")
    (row,) = compared([(batch[None], batch[None, [0, 1, 2, 0]])]).answers  # one entry of four rows
    assert (row.is_same, row.changed) == (False, 0.25)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_lost_are_told(bad: float) -> None:
    good, lost = np.float32([[0.9, 0.1]]), np.float32([[0.9, bad]])
    found = compared([(good, good), (good, lost)])
    assert [answer.is_same for answer in found.answers] == [True, False]
    assert [answer.is_settled for answer in found.answers] == [False, False]
    assert (found.outputs[0].not_finite, found.outputs[0].largest) == ((0, 1), np.inf)
    assert str(found).endswith("0.9) became NaN (nan); NaN or infinity in scores." if bad != bad else "in scores.")
    both = compared([(lost, lost)])
    assert not both.answers[0].is_settled
    assert both.outputs[0].largest == 0


@pytest.mark.parametrize(
    ("first", "second", "largest"),
    [
        (np.int64([1 << 53]), np.int64([(1 << 53) + 1]), 1),
        (np.int64([-(1 << 63)]), np.int64([(1 << 63) - 1]), 2.0**64),
        (np.uint64([(1 << 63) + 1024]), np.uint64([1 << 63]), 1024),
        (np.uint8([0]), np.uint8([255]), 255),
        (np.int32([-3]), np.uint32([5]), 8),
        (np.int64([-3]), np.uint64([5]), 8),
        (np.array([True]), np.array([False]), 1),
    ],
)
def test_whole_numbers_are_subtracted_exactly(first: Array, second: Array, largest: float) -> None:
    """The largest difference by Python's integers."""
    models = []
    for array in (first, second):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        nodes = [helper.make_node("Identity", ["constant"], ["y"]), helper.make_node("Identity", ["x"], ["z"])]
        ends = [tensor("x", [1])], [tensor("y", [1], kind), tensor("z", [1])]
        models.append(LearningModel.load(data(nodes, *ends, {"constant": array})))
    compared_models = compare(*models, {"x": np.float32([1])})
    assert [(output.name, output.largest) for output in compared_models.outputs] == [("y", largest), ("z", 0)]
    assert not compared_models.is_same


# Planted changes of what is seen in a picture


def seen(nodes: str, outputs: dict[str, str]) -> tuple[LearningModel, LearningModelEvaluationResult]:
    model = LearningModel.load(seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | {"task": "detect"}))
    model.contracts["x"] = LETTERBOX
    return model, see(model)


@pytest.mark.parametrize(
    ("place", "planted", "is_same", "lead", "difference"),
    [
        # row 0 has x of the middles, rows 4 to 6 the scores of cat, dog and bird; the dog has 0.9, and 0.6 beside it
        ((0, 5, 0), 0.88, True, 0.25, 0.02),  # nothing is nearer to the threshold than its half
        ((0, 0, 0), 200.0, False, 0.25, 0.775),  # the box moves away, and lays bare the one beside it
        ((0, 5, 0), 0.05, True, 0.25, 0.3),  # the best box is lost, and the one beside it is found
        ((0, 4, 0), 0.95, False, 0.05, 0.825),  # a cat now
        ((0, 4, 0), 0.7, True, 0.2, 0.0),  # a dog yet
        ((0, 5, 900), 0.24, True, 0.02, 0.115),  # another dog nearly appears
        ((0, 5, 900), 0.3, False, 0.1, 0.175),  # and does
    ],
)
def test_objects(place: tuple[int, ...], planted: float, is_same: bool, lead: float, difference: float) -> None:
    model, whole = seen(seeing.yolo(), {"output0": f"float[1, 7, {seeing.PLACES}]"})
    first = whole["output0"].to_numpy().copy()
    first[0, :4, 900] = [20, 20, 30, 30]
    second = first.copy()
    second[place] = planted
    (answer,) = compared([(first, second)], model, "output0").answers
    assert (answer.kind, answer.is_same, answer.first[:9]) == ("objects", is_same, "1 objects")
    assert (answer.lead, answer.difference) == pytest.approx((lead, difference), abs=1e-6)
    assert answer.is_settled is (is_same and lead > 2 * difference)
    assert ("found only here" in answer.first + answer.second) is not is_same


@pytest.mark.parametrize(("count", "is_same"), [(0, True), (150, True), (170, False)])
def test_masks(count: int, is_same: bool) -> None:
    """Of 160 x 160 pixels, the model saw 160 x 100: one in a hundred may change."""
    model, whole = seen(seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"})
    first = whole["logits"].to_numpy().copy()
    first[:, :, :30] = np.roll(first[:, :, :30], 1, axis=1)  # above the picture: nobody looks there
    second = first + np.float32(0.125)
    second.reshape(3, -1)[1, 31 * 160 : 31 * 160 + count] += 400  # birds
    (answer,) = compared([(first, second)], model, "logits").answers
    assert (answer.kind, answer.is_same, answer.changed) == ("mask", is_same, count / 16_000)
    assert answer.difference == pytest.approx(400.125 if count else 0.125)
    assert answer.is_settled is (not count)


# Outputs that hide others


def make_objects(scores: list[float], point: float) -> Array:
    """YOLO's table of one object, with its scores of three classes, 32 mask coefficients, and nothing else."""
    table = np.zeros((1, 39, seeing.PLACES), np.float32)
    table[0, :7, 0] = [160, 160, 80, 80, *scores]
    table[0, 7, 0] = point
    return table


def make_map(first: int) -> Array:
    """Scores of three classes, of which this one wins in the upper half."""
    stack = np.zeros((1, 3, 80, 80), np.float32)
    stack[:, first, :40] = 5
    stack[:, 2, 40:] = 5
    return stack


EMBEDDING, PICTURE = RNG.normal(size=(1, 16)).astype(np.float32), RNG.integers(0, 9, (1, 3, 8, 8))
PROTOTYPES = np.zeros((1, 32, 80, 80), np.float32)
PROTOTYPES[0, 0] = np.where(np.arange(80) < 40, 1, -1)
OUTPUTS: dict[str, tuple[Any, Any]] = {
    "scores": (np.float32([[0.7, 0.2, 0.1]]), np.float32([[0.2, 0.7, 0.1]])),
    "output0": (make_objects([0.1, 0.9, 0], 1), make_objects([0.9, 0.1, 0], 1)),
    "classes_of_pixels": (make_map(0), make_map(1)),
    "map_of_classes": (np.uint8([[[0, 1], [2, 3]]]), np.uint8([[[0, 1], [2, 4]]])),
    "embedding": (EMBEDDING, -EMBEDDING),
    "age": (np.float32([[31.5]]), np.float32([[38.5]])),
    "kind": (np.int64([3]), np.int64([4])),
    "kind_as_float": (np.float32([3127]), np.float32([3128])),
    "picture": (PICTURE.astype(np.float32), (PICTURE[:, ::-1]).astype(np.float32)),
    "picture_bytes": (PICTURE.astype(np.uint8), PICTURE[:, ::-1].astype(np.uint8)),
    "flag": (np.array([True]), np.array([False])),
    "text": (np.array(["a"], object), np.array(["b"], object)),
    "map": ({"cat": 0.7, "dog": 0.2, "bird": 0.1}, {"cat": 0.2, "dog": 0.7, "bird": 0.1}),
    "map_of_other_keys": ({"cat": 0.7, "dog": 0.3}, {"cat": 0.7, "fox": 0.3}),
    "sequence": ([EMBEDDING, EMBEDDING[:, :4]], [EMBEDDING, -EMBEDDING[:, :4]]),
    "shorter_sequence": ([EMBEDDING, EMBEDDING[:, :4]], [EMBEDDING]),
}
"""Outputs of every kind that a model gives, and other answers."""


def write_constants(path: Path, outputs: dict[str, Any], count: int = 1) -> str:
    """A model that takes so many pictures, and always gives these outputs."""
    nodes, infos, weights = [], [], {}
    for name, value in outputs.items():
        parts = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            parts = [np.float32([list(value.values())])]
        weights |= {f"{name}_{index}": part for index, part in enumerate(parts)}
        keys = {"classlabels_strings": list(value), "domain": "ai.onnx.ml"} if isinstance(value, dict) else {}
        operator = {list: "SequenceConstruct", dict: "ZipMap"}.get(type(value), "Identity")
        nodes.append(helper.make_node(operator, [f"{name}_{index}" for index in range(len(parts))], [name], **keys))
        kind = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(parts[0].dtype), None)
        if isinstance(value, dict):
            kind = helper.make_map_type_proto(TensorProto.STRING, kind)
        if isinstance(value, (list, dict)):
            kind = helper.make_sequence_type_proto(kind)
        infos.append(helper.make_value_info(name, kind))
    sides = [count, 3, seeing.SIDE, seeing.SIDE]
    metadata = seeing.ULTRALYTICS | {"task": "segment"}
    path.write_bytes(data(nodes, [tensor("x", sides)], infos, weights, domains={"ai.onnx.ml": 1}, metadata=metadata))
    return str(path)


@pytest.mark.once
@pytest.mark.parametrize("changed", OUTPUTS)
def test_no_output_hides_another(changed: str, tmp_path: Path) -> None:
    """Every pair of kinds, one of them changed; and the first with itself."""
    picture = str(tmp_path / "picture.png")
    Path(picture).write_bytes(make_file("landscape"))
    values = {"x": ImageFeatureValue.load(picture)}
    for kept in OUTPUTS.keys() - {changed}:
        models = [
            write_constants(tmp_path / f"{side}.onnx", {kept: OUTPUTS[kept][0], changed: OUTPUTS[changed][side]})
            for side in range(2)
        ]
        loaded = list(map(LearningModel.load, models))
        found = compare(*loaded, values, names=[picture])
        names = {answer.output.split("[")[0] for answer in found.answers if not answer.is_same}
        assert (names, found.is_same) == ({changed}, False), kept
        assert f"check {picture}, {changed}" in str(found)
    assert compare(loaded[0], loaded[0], values).is_same
    assert changed in require_exit("compare", *models, picture, code=1).stdout.splitlines()[-1]


def make_ssd(label: int) -> dict[str, Array]:
    boxes = np.float32([[[0, 0.2, 1, 0.8]]])
    return {"boxes": boxes, "labels": np.int64([[label]]), "scores": np.float32([[0.9]])}


SEEN: dict[str, tuple[dict[str, Array], dict[str, Array]]] = {
    "boxes, labels, scores": (make_ssd(1), make_ssd(2)),
    "output0": ({"output0": OUTPUTS["output0"][0][:, :7]}, {"output0": OUTPUTS["output0"][1][:, :7]}),
    "classes_of_pixels": ({"classes_of_pixels": make_map(0)}, {"classes_of_pixels": make_map(1)}),
}
"""Answers to one picture, and others."""


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize(("count", "changed"), [(1, 1), (2, 0), (2, 1)])
def test_pictures_of_a_batch(name: str, count: int, changed: int, tmp_path: Path) -> None:
    """Each has an answer. Where outputs have more entries than there are pictures, their numbers count."""
    models = []
    for rows in [(0, 0), (changed == 0, changed == 1)]:
        outputs = {key: np.concatenate([SEEN[name][row][key] for row in rows]) for key in SEEN[name][0]}
        models.append(LearningModel.load(write_constants(tmp_path / f"{len(models)}.onnx", outputs, count)))
    pictures = [ImageFeatureValue.load(make_file("landscape")).video_frame] * count
    found = compare(*models, {"x": ImageFeatureValue(pictures)})
    assert not found.is_same
    if count == 1:
        assert {answer.kind for answer in found.answers} == {"values"}
        return
    expected = [("input 0[0]", name, changed != 0), ("input 0[1]", name, changed != 1)]
    assert [(answer.input, answer.output, answer.is_same) for answer in found.answers] == expected


@pytest.mark.parametrize(("count", "is_same"), [(0, True), (2, True), (3, False)])
def test_maps_of_other_resolutions(count: int, is_same: bool) -> None:
    """A map, and one of twice its resolution: of 320 x 320 places, each row of the first has 4 times 80."""
    model, _ = seen(seeing.SEGMENTER, {"logits": "float[1, 3, 160, 160]"})
    first = make_map(0)
    second = first.repeat(2, axis=2).repeat(2, axis=3)
    second[0, 1, 40 : 40 + count, :80] = 9
    (answer,) = compared([(first, second)], model, "logits").answers
    assert (answer.kind, answer.is_same, answer.changed) == ("mask", is_same, count * 80 / 16_000)
    assert not answer.is_settled


def test_an_output_of_one_model_is_told(tmp_path: Path) -> None:
    scores = {"scores": OUTPUTS["scores"][0]}
    models = [write_constants(tmp_path / "a.onnx", scores | {"age": np.float32([3])})]
    models.append(write_constants(tmp_path / "b.onnx", scores))
    for pair in (models, models[::-1]):
        last = require_exit("compare", *pair).stdout.splitlines()[-1]
        assert last == "The answer is the same, 1 settled; only one model has age."


@pytest.mark.parametrize("extra", ["mix", "points"])
@pytest.mark.parametrize("is_moved", [False, True])
def test_objects_with_other_masks_or_points(extra: str, is_moved: bool) -> None:
    """Their boxes and scores are equal. A mask of half the object, or a point a fifth of its box away, are others."""
    outputs = {"output0": f"float[1, {39 if extra == 'mix' else 13}, {seeing.PLACES}]"}
    nodes, facts = seeing.yolo(extra), {"task": "pose", "kpt_shape": "[2, 3]"}
    if extra == "mix":
        outputs["prototypes"] = "float[1, 32, 80, 80]"
        nodes, facts = seeing.prototypes() + nodes, {"task": "segment"}
    model = LearningModel.load(seeing.make_model(nodes, outputs, seeing.ULTRALYTICS | facts))
    model.contracts["x"] = LETTERBOX
    first = see(model)
    arrays = {name: value.to_numpy().copy() for name, value in first.outputs.items()}
    x, _, width, height = arrays["output0"][0, :4, 0]
    if extra == "mix":
        arrays["prototypes"][..., : int((x + (0.1 if is_moved else -0.4) * width) / 4)] = -1
    else:
        arrays["output0"][0, 7] += (0.2 if is_moved else 0.05) * max(width, height)
    comparer = Comparer(model)
    comparer.add("0.png", (first, see(model, FakeDevice(lambda _: arrays))), 1e-3)
    (answer,) = comparer.make_comparison(({}, {})).answers
    assert (answer.kind, answer.output, answer.is_same) == ("objects", ", ".join(outputs), not is_moved)


# The command


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models of scores that add a little, or a lot, and their inputs."""
    monkeypatch.chdir(tmp_path)
    for name, number in {"plain": 0, "little": 0.01, "lot": 1, "none": np.nan}.items():
        added = np.float32([[0, number, 0]])
        ends = [tensor("x", ["n", 3]), tensor("scores", ["n", 3])]
        nodes = [helper.make_node("Add", ["x", "added"], ["scores"])]
        Path(f"{name}.onnx").write_bytes(data(nodes, ends[:1], ends[1:], {"added": added}))
    Path("other.onnx").write_bytes(unary(shape=("n", 3)))
    for name, row in {"sure": [0.9, 0.1, 0], "near": [0.5, 0.485, 0]}.items():
        np.save(f"{name}.npy", np.float32([row]))
    return tmp_path


@pytest.mark.parametrize(
    ("second", "code", "words"),
    [
        ("little", 0, "All 2 answers are the same, 1 settled; check near.npy first: its lead of 0.005 is not more"),
        ("lot", 1, "2 of 2 answers change, 0 settled; check sure.npy first: 0 (0.9) became 1 (1.1)."),
        (
            "none",
            1,
            "2 of 2 answers change, 0 settled; check sure.npy first: 0 (0.9) became NaN (nan); NaN or infinity",
        ),
    ],
)
def test_the_command_ends_with_a_line_to_act_on(second: str, code: int, words: str, files: Path) -> None:
    done = require_exit("compare", "plain.onnx", f"{second}.onnx", "sure.npy", "near.npy", code=code)
    *table, last = done.stdout.splitlines()
    assert last.startswith(words)
    assert table[0].startswith("first   plain.onnx on ")
    doubtful = [line.split()[0] for line in table if line.startswith(("sure.npy", "near.npy"))]
    assert sorted(doubtful) == (["near.npy"] if second == "little" else ["near.npy", "sure.npy"])


def test_nodes_are_judged_on_the_most_doubtful_input(files: Path) -> None:
    for name, limit in (("high", 100), ("low", 5)):
        nodes = [helper.make_node("Min", ["x", "limit"], ["y"])]
        Path(f"{name}.onnx").write_bytes(
            data(nodes, [tensor("x", [1])], [tensor("y", [1])], {"limit": np.float32(limit)})
        )
    done = require_exit("compare", "high.onnx", "low.onnx", "1", "10", "--nodes", code=1)
    assert "Min '" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("models", [("plain", "built"), ("built", "plain")])
def test_a_model_and_itself_with_its_contract_built_in(models: tuple[str, str], tmp_path: Path) -> None:
    paths = {"plain": MODELS / "digits.onnx", "built": tmp_path / "built.onnx"}
    build_in(*paths.values())
    picture = ImageFeatureValue.load(PICTURES / "seven.png")
    loaded = [LearningModel.load(paths[name]) for name in models]
    assert compare(*loaded, {"image": picture}).outputs[0].largest == 0
    with pytest.raises(InvalidArgumentError, match="No inputs were passed"):
        compare(*loaded, [])
    with pytest.raises(InvalidArgumentError, match=r"got numpy\.ndarray\. Pass a dict"):
        compare(*loaded, np.zeros((1, 1, 28, 28), np.float32))


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), ("n", 3, 8, 8), (2, 3, 8, 8)])
def test_a_built_in_contract_takes_what_bind_takes(shape: tuple[int | str, ...], tmp_path: Path) -> None:
    """All pictures of a batch, in every form."""
    paths = tmp_path / "plain.onnx", tmp_path / "built.onnx"
    paths[0].write_bytes(unary(shape=shape))
    contract = ImageContract(BitmapPixelFormat.RGB8)
    build_in(*paths, contract=contract)
    plain, built = map(LearningModel.load, paths)
    plain.contracts["x"] = contract
    images = [Image.fromarray(RNG.integers(0, 256, (8, 8, 3), np.uint8)) for _ in range(2)][: 1 if shape[0] == 1 else 2]
    values = list(map(ImageFeatureValue.from_pil, images))
    frames = [value.video_frame for value in values]
    for value in (images, values, frames, ImageFeatureValue(frames), [frame.software_bitmap for frame in frames]):
        (output,) = compare(plain, built, {"x": value}).outputs
        assert output.largest == compare(built, plain, {"x": value}).outputs[0].largest == 0
    if len(images) == 1:
        for one in (*images, *frames):
            assert compare(built, plain, {"x": one}).outputs[0].largest == 0
    else:
        images[1] = images[1].resize((9, 8))
        with pytest.raises(InvalidArgumentError, match=r"takes pictures of one size; these are of 8x8, 9x8\."):
            compare(built, plain, {"x": images})


def test_one_model_in_two_ways(files: Path) -> None:
    require_exit("compare", "plain.onnx", "sure.npy", "--engine", "onnxruntime")
    assert "There is nothing to compare it with" in require_failure(2, "compare", "plain.onnx", "sure.npy")
    assert "Expected the same output names" in require_failure(4, "compare", "plain.onnx", "other.onnx")


def make_pair(first: str, second: str) -> list[LearningModel]:
    """The difference of two inputs, and the reverse."""
    ends = [tensor(first, [1, 2]), tensor(second, [1, 2])], [tensor("y", [1, 2])]
    orders = (first, second), (second, first)
    return [LearningModel.load(data([helper.make_node("Sub", order, ["y"])], *ends)) for order in orders]


def test_inputs_are_named_exactly_or_in_another_case() -> None:
    values = {"X": np.float32([[3, 5]]), "x": np.float32([[1, 1]])}
    assert compare(*make_pair("x", "X"), values).outputs[0].largest == 8
    renamed = {"LEFT": values["X"], "Right": values["x"]}
    assert compare(*make_pair("left", "right"), renamed).outputs[0].largest == 8


@pytest.mark.parametrize("names", [["y"], ["Y"], ["x", "y"], ["x", "Y"], ["x", "other"], ["x", "X"]])
def test_only_inputs_are_named(names: list[str]) -> None:
    """An output that is written in place would be the result of both sides."""
    models = [LearningModel.load(unary(operator, shape=(2,))) for operator in ("Neg", "Abs")]
    values = {name: np.float32([1, 2]) for name in names}
    for function in (compare, find_departure):
        with pytest.raises(InvalidArgumentError, match=r"is not an input of|the same input as another name") as raised:
            function(*models, values)
        assert raised.value.hint == "Pass a value for each of: x."
    with pytest.raises(InvalidArgumentError, match=r"is not an input of|the same input as another name"):
        tune(models[0], values)


@pytest.mark.parametrize("count", [1, 3])
def test_each_input_has_a_name(count: int) -> None:
    values = {"x": np.float32([1, 2])}
    model = LearningModel.load(unary(shape=(2,)))
    with pytest.raises(InvalidArgumentError, match=f"one input for each of the {count} names"):
        compare(model, model, [values] * 2, names=["one", "two", "three"][:count])


def test_an_open_file_is_read_once_for_all_evaluations() -> None:
    with open(PICTURES / "seven.png", "rb") as file:
        (answer,) = compare(DIGITS, DIGITS, {"image": file}).answers
    assert (answer.first[:2], answer.second[:2]) == ("7 ", "7 ")
    with open(PICTURES / "seven.png", "rb") as file:
        assert find_departure(DIGITS, DIGITS, {"image": file}) is None
    assert find_departure(DIGITS, DIGITS, {"image": PICTURES / "seven.png"}) is None


def test_samples_come_before_examples(files: Path) -> None:
    assert call("compare", "plain.onnx", "little.onnx").stderr.startswith("plain.onnx: The inputs are examples")
    write_samples("plain.onnx", [{"x": np.float32([[0.2, 0.7, 0.1]])}, {"x": np.float32([[3, 2, 1]])}])
    known = compare(LearningModel.load("plain.onnx"), LearningModel.load("lot.onnx"))
    assert {answer.input for answer in known.answers} == {"test_data_set_0", "test_data_set_1"}
    assert [(answer.first, answer.second) for answer in known.answers] == [("1 (0.7)", "1 (1.7)"), ("0 (3)", "0 (3)")]


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        ([[0, 0, 100, 100], [20, 0, 120, 100]], [[20, 0, 120, 100], [0, 0, 100, 100]], [(0, 1), (1, 0)]),
        ([[0, 0, 100, 100], [0, 0, 100, 40]], [[0, 0, 100, 66], [0, 0, 100, 90]], [(0, 1), (1, 0)]),
        ([[0, 0, 100, 100]], [[60, 0, 160, 100]], []),
        ([[0, 0, 100, 100]], [], []),
    ],
)
def test_objects_are_matched_with_those_that_they_overlap_most(
    first: list[list[float]], second: list[list[float]], pairs: list[tuple[int, int]]
) -> None:
    """The boxes, and their pairs by hand: overlaps of 1 and 0.67; of 0.9 and 0.61; below a half; none."""
    sides = [
        Detections(
            np.float32(boxes).reshape(-1, 4), np.ones(len(boxes), np.float32), np.zeros(len(boxes), int), (), 9, 9
        )
        for boxes in (first, second)
    ]
    assert sorted(match_objects(*sides)) == pairs
