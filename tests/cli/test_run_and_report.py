"""What the commands do for a quick look: example inputs, pictures in tensors, long texts, sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from helpers.cli import call, require_failure
from helpers.models import FLOAT, FLOAT16, INT64, STRING, data, tensor, unary

RAMP = np.linspace(0, 1, 3 * 8 * 6, dtype=np.float32)


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (RAMP.reshape(1, 3, 8, 6), 255 * RAMP.reshape(3, 8, 6).transpose(1, 2, 0)),
        (2 * RAMP.reshape(1, 3, 8, 6) - 1, 255 * RAMP.reshape(3, 8, 6).transpose(1, 2, 0)),
        (255 * RAMP.reshape(1, 3, 8, 6), 255 * RAMP.reshape(3, 8, 6).transpose(1, 2, 0)),
        (RAMP.reshape(1, 8, 6, 3), 255 * RAMP.reshape(8, 6, 3)),
        (RAMP[:48].reshape(1, 8, 6) * 3, 255 * 3 * RAMP[:48].reshape(8, 6)),
        (RAMP.reshape(3, 8, 6).astype(np.float16), 255 * RAMP.reshape(3, 8, 6).transpose(1, 2, 0)),
        (np.uint8(RAMP * 200).reshape(1, 3, 8, 6), np.uint8(RAMP * 200).reshape(3, 8, 6).transpose(1, 2, 0)),
    ],
    ids=["0 to 1", "-1 to 1", "0 to 255", "channels last", "gray", "half", "bytes"],
)
def test_a_picture_in_a_tensor_is_written(values: Any, levels: Any, tmp_path: Path) -> None:
    model, target = tmp_path / "model.onnx", tmp_path / "out.png"
    element = {"float32": 1, "float16": 10, "uint8": 2}[values.dtype.name]
    model.write_bytes(unary(shape=values.shape, element=element))
    np.save(tmp_path / "x.npy", values)
    result = call("run", model, tmp_path / "x.npy", "--output", target)
    assert result.exit_code == 0, result.output
    assert f"{target}: The output y is a tensor, and was written as a picture: " in result.stderr
    with Image.open(target) as picture:
        pixels = np.asarray(picture).astype(float)
    assert pixels.shape == levels.shape
    assert np.abs(pixels - np.clip(levels, 0, 255)).max() <= 0.5 + (values.dtype == np.float16) * 0.5


@pytest.mark.parametrize("order", ["stated", "assumed"])
def test_a_picture_in_a_tensor_has_the_order_of_the_models_contract(order: str, tmp_path: Path) -> None:
    """BGR: stated with `winml-py contract`, or assumed by Windows ML's rule. What comes out is what went in."""
    model, target, source = tmp_path / "m.onnx", tmp_path / "out.png", tmp_path / "in.png"
    model.write_bytes(unary(shape=(1, 3, 8, 6)))
    if order == "stated":
        call("contract", model, "--output", model, "--set", "pixel_format=bgr8", "--force")
    pixels = np.random.default_rng(0).integers(0, 256, (8, 6, 3), np.uint8)
    Image.fromarray(pixels).save(source)
    result = call("run", model, source, "--output", target)
    assert result.exit_code == 0, result.output
    with Image.open(target) as picture:
        np.testing.assert_array_equal(np.asarray(picture.convert("RGB")), pixels)


def test_a_table_of_boxes_is_no_picture(tmp_path: Path) -> None:
    """3549 rows of 6 numbers, as YOLOX gives them: it was written as a gray strip."""
    nodes = [helper.make_node("Identity", ["table"], ["y"]), helper.make_node("Identity", ["x"], ["z"])]
    ends = [tensor("x", [1, 3, 8, 8])], [tensor("y", [1, 3549, 6]), tensor("z", [1, 3, 8, 8])]
    weights = {"table": np.zeros((1, 3549, 6), np.float32)}
    (tmp_path / "m.onnx").write_bytes(data(nodes[:1], ends[0], ends[1][:1], weights))
    Image.new("RGB", (8, 8)).save(tmp_path / "in.png")
    words = require_failure(5, "run", tmp_path / "m.onnx", tmp_path / "in.png", "--output", tmp_path / "o.png")
    assert "has no output that can be written" in words
    (tmp_path / "m.onnx").write_bytes(data(nodes, *ends, weights))  # the next output is one
    told = call("run", tmp_path / "m.onnx", tmp_path / "in.png", "--output", tmp_path / "o.png").stderr
    assert "The output z is a tensor, and was written as a picture" in told


@pytest.mark.parametrize("shape", [(1, 10), (2, 3, 8, 8), (1, 5, 8, 8), (3, 3, 3), (1, 3, 8, 8, 1)])
def test_what_is_no_picture_is_not_written(shape: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(unary(shape=shape))
    np.save(tmp_path / "x.npy", np.zeros(shape, np.float32))
    words = require_failure(5, "run", tmp_path / "model.onnx", tmp_path / "x.npy", "--output", tmp_path / "x.png")
    assert "x.png: The model has no output that can be written as a picture. Use a .npz file." in words


def test_info_cuts_long_texts(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    vocabulary = "\n".join(f"word {number}" for number in range(18_719))
    path.write_bytes(unary(metadata={"vocabulary": vocabulary, "licence": "MIT", "long": "x" * 5000}))
    lines = call("info", path).stdout.splitlines()
    assert len(lines) < 40
    assert f"({len(vocabulary):,} characters; --json prints all)" in " ".join(" ".join(lines).split())
    assert any("licence" in line and "MIT" in line for line in lines)
    assert "... (5,000 characters; --json" in " ".join(" ".join(lines).split())
    assert json.loads(call("info", path, "--json").stdout)["metadata"]["vocabulary"] == vocabulary


# What the numbers are


ROW = np.float32([[3.5, -1.25, 20]])


def rows(*nodes: onnx.NodeProto, name: str = "y") -> bytes:
    """A model that gives three numbers, of three that go in."""
    return data(list(nodes), [tensor("x", [1, 3])], [tensor(name, [1, 3])])


@pytest.mark.parametrize(
    ("model", "options", "lines"),
    [
        (rows(helper.make_node("Neg", ["x"], ["y"])), [], ["  y: -3.5, 1.25, -20"]),  # a regression's
        (rows(helper.make_node("Neg", ["x"], ["y"])), ["--top-k", 1], ["  y", "    1    1.2500"]),
        (rows(helper.make_node("Neg", ["x"], ["logits"]), name="logits"), [], ["  logits", "    1     1.2500"]),
        (
            rows(helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("Identity", ["s"], ["y"])),
            [],
            ["  y", "    2  1.0000"],
        ),
    ],
    ids=["numbers", "asked for", "name", "softmax"],
)
def test_only_classes_are_ranked(model: bytes, options: list[Any], lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(model)
    np.save(tmp_path / "x.npy", ROW)
    shown = call("run", tmp_path / "m.onnx", tmp_path / "x.npy", *options).stdout.splitlines()[1:]
    assert [line.split() for line in shown[: len(lines)]] == [line.split() for line in lines]


def test_each_row_of_a_batch_is_ranked(tmp_path: Path) -> None:
    x = [tensor("x", ["n", 3])]
    (tmp_path / "m.onnx").write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], x, [tensor("y", ["n", 3])]))
    np.save(tmp_path / "x.npy", np.float32([[3.5, -1.25, 20], [-2, 0, 1]]))
    (tmp_path / "labels.txt").write_text("cat\ndog\nowl\n")
    words = ["run", tmp_path / "m.onnx", tmp_path / "x.npy"]
    assert call(*words, "--top-k", 1).stdout.split()[-4:] == ["1", "1.25", "0", "2"]
    shown = call(*words, "--labels", tmp_path / "labels.txt", "--top-k", 2).stdout.splitlines()[1:]
    assert shown == ["  y", "    dog 1.25, cat -3.5", "    cat 2, dog -0"]
    assert call(*words).stdout.splitlines()[1] == "  y: float32 of 2x3: -3.5, 1.25, -20, 2, -0, -1"


def test_labels_and_shares_of_one_are_classes(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(rows(helper.make_node("Abs", ["x"], ["y"])))
    np.save(tmp_path / "x.npy", ROW)
    (tmp_path / "labels.txt").write_text("cat\ndog\nowl\n")
    shown = call("run", tmp_path / "m.onnx", tmp_path / "x.npy", "--labels", tmp_path / "labels.txt").stdout
    assert shown.split()[-9:] == ["2", "owl", "20.0000", "0", "cat", "3.5000", "1", "dog", "1.2500"]
    np.save(tmp_path / "x.npy", np.float32([[0.25, 0.5, 0.25]]))
    shown = call("run", tmp_path / "m.onnx", tmp_path / "x.npy").stdout
    assert shown.split()[-6:] == ["1", "0.5000", "0", "0.2500", "2", "0.2500"]


def test_maps_and_sequences_are_written_as_people_write_them(tmp_path: Path) -> None:
    """As of scikit-learn's classifiers, which give a map of labels and scores for each row."""
    float_map = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(1, None))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["cat", "dog", "owl"])
    whole = helper.make_value_info("y", helper.make_sequence_type_proto(float_map))
    path = tmp_path / "m.onnx"
    path.write_bytes(data([node], [tensor("x", ["n", 3])], [whole], domains={"ai.onnx.ml": 1}))
    np.save(tmp_path / "x.npy", ROW)
    assert call("run", path, tmp_path / "x.npy").stdout.splitlines()[1:] == ["  y: cat 3.5, dog -1.25, owl 20"]
    np.save(tmp_path / "x.npy", np.float32([[1, 2, 3], [4, 5, 6]]))
    assert call("run", path, tmp_path / "x.npy").stdout.splitlines()[1:] == [
        "  y",
        "    cat 1, dog 2, owl 3",
        "    cat 4, dog 5, owl 6",
    ]


# Inputs that are no pictures


def outputs_of(*words: object) -> Any:
    return json.loads(call("run", *words, "--json").stdout)["results"][0]["outputs"]["y"]


def test_text_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(unary(shape=(1,), element=STRING))
    (tmp_path / "text.md").write_text("caf\u00e9 = good\nand more\n", encoding="utf-8")
    assert outputs_of(tmp_path / "m.onnx", tmp_path / "text.md")["values"] == ["caf\u00e9 = good\nand more"]
    for words in ("written", "How are you?", "[CLS] *"):
        for text in (words, f"x={words}"):
            assert outputs_of(tmp_path / "m.onnx", text)["values"] == [words]
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    assert "UTF-8" in require_failure(4, "run", tmp_path / "m.onnx", tmp_path / "latin")
    (tmp_path / "a.csv").write_text("a,b")
    assert outputs_of(tmp_path / "m.onnx", tmp_path / "a.csv")["values"] == ["a,b"]


def test_maps_and_arrays_written_as_json(tmp_path: Path) -> None:
    numbered = helper.make_value_info("x", helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, ())))
    node = helper.make_node("CastMap", ["x"], ["y"], domain="ai.onnx.ml", map_form="DENSE", cast_to="TO_FLOAT")
    (tmp_path / "map.onnx").write_bytes(data([node], [numbered], [tensor("y", [1, "n"])], domains={"ai.onnx.ml": 1}))
    assert outputs_of(tmp_path / "map.onnx", '{"-1": 2.5, "3": 4}')["values"] == [2.5, 4]
    (tmp_path / "m.onnx").write_bytes(unary("Neg", ("n", 2)))
    assert outputs_of(tmp_path / "m.onnx", "[[1, 2], [3, 4]]")["values"] == [-1, -2, -3, -4]


def test_the_range_of_an_output_is_exact(tmp_path: Path) -> None:
    for kind, array in ((INT64, np.arange(20) + 2**53 + 1), (FLOAT16, np.tile(np.float16([40000, 40032]), 10))):
        (tmp_path / "m.onnx").write_bytes(unary(element=kind))
        np.save(tmp_path / "x.npy", array)
        shown = outputs_of(tmp_path / "m.onnx", tmp_path / "x.npy")
        assert (shown["min"], shown["max"]) == (array.min(), array.max())
        assert shown["mean"] == array.mean(dtype=np.float64)


def test_a_table_may_have_several_rows(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(unary("Neg", ("n", 3)))
    (tmp_path / "rows.csv").write_text("1,2,3\n4,5,6\n")
    shown = outputs_of(tmp_path / "m.onnx", tmp_path / "rows.csv")
    assert (shown["shape"], shown["values"]) == ([2, 3], [-1, -2, -3, -4, -5, -6])
    (tmp_path / "rows.csv").write_text("1,2,3\n4,5\n")
    refusal = require_failure(4, "run", tmp_path / "m.onnx", tmp_path / "rows.csv")
    assert "rows.csv, row 2: The row has 2 numbers, but row 1 has 3" in refusal
