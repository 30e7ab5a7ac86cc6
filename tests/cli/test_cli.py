"""The command line: what it prints, writes and exits with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from PIL import Image

from helpers.cli import call, require_failure
from helpers.models import FLOAT, INT64, STRING, data, tensor, unary
from helpers.paths import MODELS

DIGITS, EDGES = str(MODELS / "digits.onnx"), str(MODELS / "edges.onnx")


def test_run_prints_the_top_classes(seven: Path) -> None:
    result = call("run", DIGITS, seven, "--labels", MODELS / "digits.labels.txt", "--top-k", 2)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == [str(seven)]
    assert lines[1] == ["probabilities"]
    assert lines[2][:2] == ["7", "seven"]
    assert 0.5 < float(lines[2][2]) <= 1
    assert len(lines) == 4


def test_run_writes_json(seven: Path) -> None:
    facts = json.loads(call("run", DIGITS, seven, "--json").stdout)
    assert (facts["schema"], facts["kind"]) == (1, "run")
    top = facts["results"][0]["outputs"]["probabilities"]["top"]
    assert (len(top), top[0]["index"], "label" in top[0]) == (5, 7, False)
    assert [entry["value"] for entry in top] == sorted((entry["value"] for entry in top), reverse=True)


def test_run_writes_a_picture(tmp_path: Path, cat: Path) -> None:
    target = tmp_path / "edges.png"
    result = call("run", EDGES, cat, "--output", target)
    assert result.exit_code == 0
    assert "a picture of 451x300" in result.stdout
    with Image.open(target) as picture:
        assert (picture.size, picture.mode) == ((451, 300), "RGB")


def test_run_takes_many_inputs_and_writes_a_folder(tmp_path: Path, cat: Path, seven: Path) -> None:
    third = tmp_path / "third.png"
    shutil.copy(seven, third)
    folder = tmp_path / "out"
    result = call("run", EDGES, cat, seven, third, "--output", f"{folder}/", "--json")
    assert sorted(path.name for path in folder.iterdir()) == ["cat.png", "seven.png", "third.png"]
    written = [entry["written"] for entry in json.loads(result.stdout)["results"]]
    assert written == [[f"{folder}/{name}.png"] for name in ("cat", "seven", "third")]


def test_run_goes_on_after_a_bad_input(tmp_path: Path, seven: Path) -> None:
    result = call("run", DIGITS, tmp_path / "nope.png", seven)
    assert result.exit_code == 4
    assert "nope.png: There is no such picture." in result.stderr
    assert "probabilities" in result.stdout
    facts = json.loads(call("run", DIGITS, tmp_path / "nope.png", seven, "--json").stdout)
    assert ["error" in entry for entry in facts["results"]] == [True, False]


def test_numbers_in_the_place_of_files(tmp_path: Path) -> None:
    names, kinds = ("x", "rate", "flag", "word"), (FLOAT, INT64, TensorProto.BOOL, STRING)
    inputs = [
        tensor(name, [2] if name == "x" else [1] if name == "flag" else [], kind)
        for name, kind in zip(names, kinds, strict=True)
    ]
    nodes = [
        helper.make_node("Cast", ["rate"], ["factor"], to=FLOAT),
        helper.make_node("Mul", ["x", "factor"], ["product"]),
        helper.make_node("Identity", ["flag"], ["same_flag"]),
        helper.make_node("Identity", ["word"], ["same_word"]),
    ]
    results = [tensor("product", [2]), tensor("same_flag", [1], TensorProto.BOOL), tensor("same_word", [], STRING)]
    path = tmp_path / "values.onnx"
    path.write_bytes(data(nodes, inputs, results))

    def outputs(*values: object) -> list[object]:
        target = tmp_path / "out.npz"
        call("run", path, *values, "--output", target)
        with np.load(target, allow_pickle=True) as arrays:
            return [arrays[name].tolist() for name in ("product", "same_flag", "same_word")]

    assert outputs("x=1.5,-2", "rate=16000", "flag=1", "word=héllo") == [[24000, -32000], [True], "héllo"]
    for number, value in {"rate": np.array(3), "x": np.float32([1, 2])}.items():
        np.save(tmp_path / f"{number}.npy", value)
    files = f"x={tmp_path / 'x.npy'}", f"rate={tmp_path / 'rate.npy'}"
    assert outputs(*files, "flag=0", "word=2") == [[3, 6], [False], "2"]
    for rate, flag, words in (
        ("1.5", 1, "rate takes Int64[]"),
        ("1e30", 1, "to 9223372036854775807, got 1e+30"),
        ("1", 2, "from 0 to 1, got 2"),
    ):
        assert words in require_failure(4, "run", path, "x=1,2", f"rate={rate}", f"flag={flag}", "word=a")
    assert "expects Float[2,]" in require_failure(4, "run", path, "x=1,2,3", "rate=1", "flag=1", "word=a")
    assert "nowhere: No such file or folder exists, and x takes Float 2" in require_failure(
        4, "run", path, "x=nowhere", "rate=1", "flag=1", "word=a"
    )


def test_a_number_in_a_file_is_of_the_feature_s_type(tmp_path: Path) -> None:
    path = tmp_path / "neg.onnx"
    path.write_bytes(unary("Neg", [1, 1]))
    np.save(tmp_path / "x.npy", 0.5)  # float64, and without a dimension
    call("run", path, tmp_path / "x.npy", "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["y"].tolist() == [[-0.5]]


def test_a_state_begins_with_zeros(tmp_path: Path) -> None:
    """A model with the inputs of a voice detector: sound, the state of the block before, and the rate."""
    sound, rate = tensor("input", ["batch", 4]), tensor("sr", [], TensorProto.INT64)
    states = [tensor(name, [2, "batch", 3]) for name in ("state", "stateN")]
    nodes = [
        helper.make_node("ReduceSum", ["input"], ["sum"]),
        helper.make_node("Cast", ["sr"], ["rate"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["sum", "rate"], ["product"]),
        helper.make_node("Add", ["state", "product"], ["stateN"]),
    ]
    path = tmp_path / "vad.onnx"
    path.write_bytes(data(nodes, [sound, states[0], rate], states[1:]))
    np.save(tmp_path / "sound.npy", np.array([[1, 2, 3, 0.5]], np.float32))
    words = ["run", path, f"input={tmp_path / 'sound.npy'}", "sr=16000"]
    message = require_failure(2, *words)
    assert "Values are missing for state (Float[2,-1,3,])." in message
    assert "Add state=FILE. To start a state with zeros, use state=zeros." in message
    done = call(*words, "state=zeros", "--output", tmp_path / "out.npz")
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "out.npz") as arrays:
        np.testing.assert_array_equal(arrays["stateN"], np.full((2, 1, 3), 6.5 * 16000, np.float32))


def test_run_binds_several_inputs_by_name(tmp_path: Path) -> None:
    ends = [tensor("a", [2]), tensor("b", [2]), tensor("sum", [2])]
    path = tmp_path / "add.onnx"
    path.write_bytes(data([helper.make_node("Add", ["a", "b"], ["sum"])], ends[:2], ends[2:]))
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    result = call("run", path, f"A={tmp_path / 'x.npy'}", f"b={tmp_path / 'x.npy'}")
    assert result.stdout.splitlines()[1:] == ["  sum: 2, 4"]


def test_info_shows_what_a_model_takes_and_gives() -> None:
    result = call("info", MODELS / "digits_batch.onnx")
    words = " ".join(result.stdout.split())
    for expected in (
        "model digits_batch",
        "author winml-py",
        "format IR version 8, opset ai.onnx 17",
        "Image.NominalPixelRange Normalized_0_1",
        "input image image Float batch x 1 x 28 x 28",
        "output probabilities tensor Float batch x 10",
    ):
        assert expected in words


def test_info_as_json(tmp_path: Path) -> None:
    facts = json.loads(call("info", EDGES, "--json").stdout)
    image = {
        "name": "image",
        "kind": "image",
        "description": "any picture",
        "type": "Float",
        "shape": [1, 3, "height", "width"],
        "pixel_format": "BGRA8",
        "pixel_range": "ZERO_TO255",
        "width": None,
        "height": None,
        "contract": "BGR8, zero_to255",
    }
    assert facts["inputs"] == [image]
    assert (facts["size"], facts["opsets"]) == (Path(EDGES).stat().st_size, {"ai.onnx": 17})
    floats = helper.make_tensor_type_proto(1, [])
    odd = helper.make_sequence_type_proto(helper.make_map_type_proto(7, floats))
    path = tmp_path / "odd.onnx"
    path.write_bytes(data([], [helper.make_value_info("s", odd)], [tensor("y", [1, 3, 2, None], denotation="IMAGE")]))
    assert "s sequence list of Int64 to Float" in " ".join(call("info", path).stdout.split())
    path.write_bytes(unary(shape=(1, 3, 2, 2), denotation="IMAGE", metadata={"Image.ColorSpaceGamma": "Linear"}))
    assert "does not support" in json.loads(call("info", path, "--json").stdout)["inputs"][0]["note"]


def test_contract_writes_what_info_shows_and_run_keeps_to(tmp_path: Path, cat: Path) -> None:
    target = tmp_path / "darker.onnx"
    fields = ["--set", "pixel_format=rgb8", "--set", "mean=10,20,30", "--set", "std=2"]
    done = call("contract", EDGES, "--output", target, *fields)
    assert done.stdout.strip() == f"{target}: RGB8, zero_to255, mean 10 20 30, std 2 2 2"
    assert json.loads(call("info", target, "--json").stdout)["inputs"][0]["contract"] in done.stdout
    call("contract", target, "--from", "yolo", "--set", "kernel=area", "--output", target, "--force")
    assert "fit, area, pad 114 114 114" in " ".join(call("info", target).stdout.split())
    assert call("run", target, cat, "--output", tmp_path / "edges.png").exit_code == 0
    before = sorted(tmp_path.iterdir())
    for code, arguments, words in (
        (3, ["nope.onnx", "--set", "mean=1"], "Model file not found"),
        (4, [EDGES, "--set", "std=0"], "std must not be 0"),
        (4, [EDGES, "--set", "mean=1,2"], "one finite number, or 3"),
        (
            4,
            [DIGITS, "--set", "size=28,32"],
            "width of the model variable image is 28, but the image contract specifies 32",
        ),
        (4, [DIGITS, "--from", "yolo"], "No input is a tensor of RGB8 pictures in NCHW: image is Float[1,1,28,28,]"),
    ):
        assert words in require_failure(code, "contract", *arguments, "--output", tmp_path / "new.onnx")
    assert sorted(tmp_path.iterdir()) == before


def test_other_outputs_are_summarized(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    cases: list[tuple[Any, bytes, str]] = [
        (np.arange(40, dtype=np.float32).reshape(4, 10), unary(shape=("a", "b")), "y: float32 of 4x10, 0 to 39"),
        (np.array([[1, 2]]), unary(shape=("a", "b"), element=7), "y: 1, 2"),
        (np.array([[1, 2], [3, 4]]), unary(shape=("a", "b"), element=7), "y: int64 of 2x2: 1, 2, 3, 4"),
        (np.array(["a", "b"]), unary(element=8), "y: a, b"),
    ]
    for value, whole, expected in cases:
        path.write_bytes(whole)
        np.save(tmp_path / "x.npy", value)
        result = call("run", path, tmp_path / "x.npy", "--output", tmp_path / "out.npz")
        assert expected in result.stdout
        with np.load(tmp_path / "out.npz") as arrays:
            np.testing.assert_array_equal(arrays["y"], value)


def test_outputs_that_are_no_arrays_are_not_left_out_of_a_file(tmp_path: Path) -> None:
    """A batch of pictures is one; maps and sequences are refused."""
    path, file = tmp_path / "m.onnx", tmp_path / "x.npy"
    ends = [tensor(name, ["n", 3, 4, 5], denotation="IMAGE") for name in "xy"]
    path.write_bytes(data([helper.make_node("Identity", ["x"], ["y"])], ends[:1], ends[1:]))
    blue_green_red = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    np.save(file, blue_green_red)
    assert call("run", path, file, "--output", tmp_path / "o.npz").exit_code == 0
    with np.load(tmp_path / "o.npz") as arrays:
        np.testing.assert_array_equal(arrays["y"][..., :3], blue_green_red.transpose(0, 2, 3, 1))
    kinds = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, ()))
    maps = helper.make_value_info("maps", helper.make_sequence_type_proto(kinds))
    nodes = [
        helper.make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
        helper.make_node("SequenceConstruct", ["x", "x"], ["list"]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    outputs = [maps, helper.make_value_info("list", kind), tensor("y", [None, 2])]
    path.write_bytes(data(nodes, [tensor("x", [None, 2])], outputs))
    np.save(file, np.float32([[1, 2]]))
    words = require_failure(5, "run", path, file, "--output", tmp_path / "maps.npz")
    assert "maps.npz: A .npz file holds arrays, but these outputs are maps or sequences: maps, list. Omit" in words
    assert not (tmp_path / "maps.npz").exists()


def test_sequences_and_odd_names_come_out(tmp_path: Path) -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["file"])
    path = tmp_path / "m.onnx"
    path.write_bytes(data([node], [tensor("x", [2])], [helper.make_value_info("file", kind)]))
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    facts = json.loads(call("run", path, tmp_path / "x.npy", "--json").stdout)
    assert len(facts["results"][0]["outputs"]["file"]["value"]) == 2
    path.write_bytes(data([helper.make_node("Neg", ["x"], ["file"])], [tensor("x", [2])], [tensor("file", [2])]))
    call("run", path, tmp_path / "x.npy", "--output", tmp_path / "o.npz")
    with np.load(tmp_path / "o.npz") as arrays:
        assert arrays["file"].tolist() == [-1, -2]
    (tmp_path / "labels.txt").write_bytes(b"caf\xe9")
    assert "UTF-8 text" in require_failure(4, "run", path, tmp_path / "x.npy", "--labels", tmp_path / "labels.txt")
    assert "specified twice" in require_failure(2, "run", path, f"x={tmp_path / 'x.npy'}", f"X={tmp_path / 'x.npy'}")
