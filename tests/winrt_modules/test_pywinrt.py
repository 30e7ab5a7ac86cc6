"""Programs written for pywinrt run once their import lines and the class of the errors they catch are changed."""

from __future__ import annotations

import csv
import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import helper
from PIL import Image

from helpers.models import FLOAT, INT64, STRING, data, tensor, unary
from helpers.paths import MODELS, ROOT
from helpers.processes import drop_line_of_wine
from winml_py import ImageFeatureValue, LearningModelSession
from winml_py.winrt.windows.graphics.imaging import BitmapTransform

PROGRAMS = ROOT / "tests" / "pywinrt"
IMPORT = re.compile(r"^from winrt\b", re.MULTILINE)


def run(program: str, folder: Path, *arguments: object, drivers_speak: bool = False) -> list[str]:
    """Runs a program with its import lines, and `OSError`, changed."""
    source, changed = IMPORT.subn("from winml_py.winrt", (PROGRAMS / program).read_text())
    assert changed
    source = source.replace("except OSError", "except winml_py.WinMLError")
    (folder / program).write_text(f"import winml_py\n{source}")
    command = [sys.executable, "-W", "error", folder / program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert drop_line_of_wine(done.stderr) == "" or drivers_speak
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_classify_a_picture(tmp_path: Path, digits: LearningModelSession) -> None:
    model, picture = MODELS / "digits.onnx", ROOT / "samples/pictures/seven.png"
    line = run("classify.py", tmp_path, model, picture, MODELS / "digits.labels.txt")[0].split()
    assert line[0] == "seven"
    scores = digits.evaluate_features({"image": ImageFeatureValue.load(picture)}).outputs["probabilities"]
    assert line[1] == f"{scores.to_numpy()[0, 7]:.3f}"
    assert line[2:] == ["classify", "True", "2"]


def test_classify_raw_pixels_and_a_file_of_numbers(tmp_path: Path, digits: LearningModelSession) -> None:
    picture, numbers = ROOT / "samples/pictures/seven.png", tmp_path / "noise.f32"
    noise = np.random.default_rng(2).uniform(0, 255, (1, 1, 28, 28)).astype("<f4")
    noise.tofile(numbers)
    labels = (MODELS / "digits.labels.txt").read_text().split()
    scores = digits.evaluate_features({"image": noise}).outputs["probabilities"].to_numpy()
    names = ["seven", labels[int(scores.argmax())]]
    size = sum(len(name) + 2 for name in names)
    printed = run("buffers.py", tmp_path, MODELS / "digits.onnx", picture, MODELS / "digits.labels.txt", numbers)
    assert printed == [f"classes.txt {size}"]
    assert (tmp_path / "classes.txt").read_bytes() == "".join(f"{name}\r\n" for name in names).encode()


def test_style_transfer_to_a_picture(tmp_path: Path) -> None:
    picture, result = ROOT / "samples/pictures/cat.jpg", tmp_path / "styled.png"
    with Image.open(picture) as image:
        expected = 255 - np.asarray(image.convert("RGB"))
    height, width = expected.shape[:2]
    first = " ".join(map(str, expected[0, 0]))
    printed = run("style.py", tmp_path, MODELS / "invert.onnx", picture, result)
    assert printed == [f"{width} {height} {width * 4} {first} 255"]
    with Image.open(result) as styled:
        np.testing.assert_array_equal(np.asarray(styled.convert("RGB")), expected)


def test_tensors_and_async(tmp_path: Path) -> None:
    inputs = [tensor("x", [1, 3]), tensor("n", [1], INT64), tensor("words", [2], STRING)]
    outputs = [tensor("product", [1, 3]), tensor("same_words", [2], STRING)]
    nodes = [
        helper.make_node("Cast", ["n"], ["factor"], to=FLOAT),
        helper.make_node("Mul", ["x", "factor"], ["product"]),
        helper.make_node("Identity", ["words"], ["same_words"]),
    ]
    (tmp_path / "times.onnx").write_bytes(data(nodes, inputs, outputs))
    assert run("tensors.py", tmp_path, tmp_path / "times.onnx") == [
        "True",
        "x FLOAT [1, 3] True",
        "n INT64 [1] True",
        "words STRING [2] True",
        "[[0.0, 1.0, 2.0], [2.0, 3.0, 4.0], [4.0, 5.0, 6.0], [6.0, 7.0, 8.0]]",
        "[30.0, 6.0, 9.0] ['c', 'd'] map",
        "0x88900002",
        "0x80000013",
    ]


def test_the_kinds_of_devices_that_pywinrt_2_names(tmp_path: Path) -> None:
    (tmp_path / "neg.onnx").write_bytes(unary("Neg", shape=[2, 3]))
    negated = str([-0.0, -1.0, -2.0, -3.0, -4.0, -5.0])
    printed = run("devices.py", tmp_path, tmp_path / "neg.onnx", drivers_speak=True)
    assert printed[:2] == [f"0 {negated}", f"1 {negated}"]
    for kind, line in zip((2, 3, 4), printed[2:5], strict=True):
        assert line in (f"{kind} {negated}", f"{kind} 0x88900001")  # on a GPU, or there is none
    assert printed[5:] == ["None", "0x88900001"]  # and a provider without operators changes nothing


def test_vectors_and_maps_as_in_other_languages(tmp_path: Path) -> None:
    labels = ["cat", "dog", "owl"]
    nodes = [
        helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0),
        helper.make_node("ZipMap", ["x"], ["scores"], domain="ai.onnx.ml", classlabels_strings=labels),
    ]
    rows = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    scores = helper.make_value_info("scores", helper.make_sequence_type_proto(rows))
    ends = [tensor("x", ["n", 3])], [tensor("best", ["n"], INT64), scores]
    (tmp_path / "scores.onnx").write_bytes(data(nodes, *ends, domains={"ai.onnx.ml": 1}))
    assert run("translated.py", tmp_path, tmp_path / "scores.onnx") == [
        "x 2 -1 3 False",
        "best TENSOR",
        "scores SEQUENCE",
        "2 (True, 1) x",
        "2 0 (True, 1) (False, 0)",
        "3 True False 0.25 cat=0.5 dog=0.25 owl=0.125",
        "3 True False 3.0 cat=1.0 dog=3.0 owl=2.0",
        "0x8000000b",
        "0x8000000b",
    ]


def has_member(module: str, kind: str, name: str) -> bool:
    try:
        value: object = importlib.import_module(f"winml_py.winrt.{module}")
    except ImportError:
        return False
    for part in filter(None, (kind, name)):
        if not hasattr(value, part) and part not in getattr(value, "__annotations__", {}):
            return False
        value = getattr(value, part, None)
    return True


def test_members_that_programs_use_are_there() -> None:
    """Of those that public programs, samples and pywinrt's own tests touch; what is missing has a reason."""
    with (PROGRAMS / "members.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 458
    assert all((row["state"] == "missing") is bool(row["why"]) for row in rows)
    states = {
        (row["module"], row["class"], row["member"]): row["state"] for row in rows if row["state"] != "of objects"
    }
    assert [key for key, state in states.items() if has_member(*key) is (state == "missing")] == []
    assert list(states.values()).count("missing") == 204
    transform = BitmapTransform()
    of_objects = [row["member"] for row in rows if row["class"] == "BitmapTransform" and row["state"] == "of objects"]
    assert len(of_objects) == 4
    assert all(hasattr(transform, name) for name in of_objects)
