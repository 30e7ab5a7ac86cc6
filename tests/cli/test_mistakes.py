"""What people give the command line by mistake, and the line that they read: the file first, then what to do.

`tests/project/test_python_mistakes.py` is this for Python programs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from helpers.models import INT64, data, model, tensor, unary
from helpers.paths import MODELS
from winml_py.cli.main import main

HTML = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98234567\n"


def write_models(digits: bytes) -> None:
    """Files in the place of a model."""
    Path("page.onnx").write_text(HTML)
    Path("pointer.onnx").write_text(POINTER)
    Path("empty.onnx").touch()
    Path("digits.onnx").write_bytes(digits)
    Path("edges.onnx").write_bytes((MODELS / "edges.onnx").read_bytes())
    ends = [tensor(name, [2]) for name in ("a", "b", "sum")]
    Path("add.onnx").write_bytes(data([helper.make_node("Add", ["a", "b"], ["sum"])], ends[:2], ends[2:]))
    Path("pairs.onnx").write_bytes(unary("Neg", ["n", 2]))
    Path("ids.onnx").write_bytes(unary("Neg", [1, "length"], INT64))
    Path("rate.onnx").write_bytes(unary("Neg", [], INT64))
    split = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [tensor("x", [2])], [tensor("y", [2])], {"w": np.ones(2)}
    )
    onnx.save(split, "split.onnx", save_as_external_data=True, location="split.data", size_threshold=0)
    Path("split.data").unlink()


def write_inputs(seven: bytes) -> None:
    """Files in the place of an input, and of what options name."""
    Path("seven.png").write_bytes(seven)
    kind = helper.make_map_type_proto(onnx.TensorProto.STRING, helper.make_tensor_type_proto(1, None))
    node = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a"])
    words = data([node], [helper.make_value_info("m", kind)], [tensor("y", [1, 1])], domains={"ai.onnx.ml": 1})
    Path("words.onnx").write_bytes(words)
    lists = helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, ["n"])
    node = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    Path("list.onnx").write_bytes(data([node], [lists], [tensor("y", ["m"])]))
    Path("page.png").write_text(HTML)
    np.save("x.npy", np.ones(2, np.float32))
    np.save("wide.npy", np.zeros((1, 1, 28, 29), np.float32))
    Path("words.csv").write_text("one, two\n")
    Path("few.csv").write_text("1, 2, 3\n")
    Path("program.py").write_text("print(1)\n")
    Path("nine.txt").write_text("\n".join("abcdefghi"))
    Path("odd.json").write_text('{"colour": 1}')
    Path("nothing").mkdir()
    writer = cv2.VideoWriter("in.avi", cv2.VideoWriter.fourcc(*"MJPG"), 10, (32, 32))
    writer.write(np.zeros((32, 32, 3), np.uint8))
    writer.release()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all these files."""
    folder = tmp_path_factory.mktemp("mistakes")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_models((MODELS / "digits.onnx").read_bytes())
        write_inputs((MODELS.parent / "samples" / "pictures" / "seven.png").read_bytes())
    return folder


MISTAKES: tuple[tuple[str, int, str], ...] = (
    # The model
    ("info page.onnx", 3, "page.onnx: Failed to parse the model…It is not an ONNX model"),
    ("run pointer.onnx seven.png", 3, "pointer.onnx: Expected an ONNX model, got a Git LFS pointer…git lfs pull"),
    ("info empty.onnx", 3, "empty.onnx: Failed to parse the model"),
    ("info seven.png", 3, "seven.png: Expected an ONNX model, got a picture. Pass the model first"),
    ("info nothing", 3, "nothing: There is no .onnx file in this folder"),
    ("info digit.onnx", 3, "digit.onnx: Model file not found. Did you mean digits.onnx?"),
    (
        "info .",
        3,
        f".: Expected one model in this folder, got add.onnx,…Choose one: .{os.sep}add.onnx, or",
    ),
    (
        "info https://a.com/b.onnx",
        3,
        "https://a.com/b.onnx: This is a network address, but only files can be read. Download the file",
    ),
    (
        "run split.onnx x.npy",
        3,
        "split.onnx: The model stores the weight w in the file split.data, which is not in {place}",
    ),
    # The input
    ("run digits.onnx", 2, "digits.onnx: Expected an INPUT after the model"),
    ("run digits.onnx sevn.png", 4, "sevn.png: There is no such picture. Did you mean seven.png?"),
    ("run digits.onnx page.png", 4, "page.png is not a picture that can be decoded…Supported formats: AVIF, BMP"),
    ("run digits.onnx nothing", 2, "nothing: The folder contains no picture. Expected files ending in .apng, .avif"),
    ("run digits.onnx *.tiff", 2, "*.tiff: No file matches this pattern"),
    ("run digits.onnx wide.npy", 4, "wide.npy: Model variable image…Float[1,1,28,29,]. Dimension 3 is 29, not 28."),
    ("run digits.onnx words.csv", 4, "words.csv, row 1: Expected only numbers…Separate numbers with commas"),
    ("run digits.onnx few.csv", 4, "few.csv, row 1: The table has 1 row of 3 numbers, but image takes"),
    ("run pairs.onnx 1,2,3", 4, "1,2,3: The file contains 3 numbers, but x takes a multiple of 2 (1 x 2)"),
    ("run pairs.onnx 1", 4, "1: The file contains 1 number, but x takes a multiple of 2"),
    (
        "run ids.onnx program.py",
        4,
        "program.py: x takes Int64 1 x length. Pass an array, or the path to a .npy or .csv file",
    ),
    ("run list.onnx 5", 4, "5: The model variable s cannot…it expects Sequence<Float[-1,]>, got int 5. Bind a list"),
    ("run digits.onnx picture=seven.png", 2, "picture=seven.png: The model has no input 'picture'. Use one of: image."),
    ("run add.onnx x.npy", 2, "add.onnx: The model has 2 inputs. Specify each by name: a=FILE b=FILE."),
    ("run add.onnx a=x.npy", 2, "add.onnx: Values are missing for b (Float[2,]). Add b=FILE"),
    ("compare digits.onnx edges.onnx", 4, "digits.onnx, edges.onnx: The models take different inputs"),
    # Options
    ("run edges.onnx seven.png --output nowhere/x.png", 5, "nowhere/x.png: The folder {place}/nowhere does not exist"),
    ("run digits.onnx seven.png --output x.png", 5, "x.png: The model has no output that can be written as a picture"),
    ("run edges.onnx seven.png page.png --output x.png", 2, "x.png: With 2 inputs…must be a folder: x/"),
    ("run edges.onnx seven.png ./seven.png --output ./", 2, "Two inputs are named seven"),
    ("run digits.onnx seven.png --labels nine.txt", 2, "nine.txt: Expected 10 labels, one per line, got 9."),
    ("run digits.onnx seven.png --labels ten.txt", 2, "Invalid value for '--labels': File 'ten.txt' does not exist."),
    ("run words.onnx m=a", 4, "m=a: The model variable m cannot…Map<String,Float[]>, got list of str. Bind a dict"),
    (
        "run digits.onnx seven.png --device cuda",
        6,
        "There is no device named 'cuda'…onnxruntime-gpu…To see what is missing, run `winml-py doctor`.",
    ),
    ("run digits.onnx seven.png --device gpu", 6, "There is no device named 'gpu'…pip install 'winml-py[gpu]'"),
    ("run digits.onnx seven.png --engine cuda", 6, "The CPU has no engine CUDAExecutionProvider…--device gpu"),
    ("run digits.onnx seven.png --contract odd.json", 4, "odd.json: No image contract found…preprocessor_config.json"),
    ("run digits.onnx seven.png --contract imagenet", 4, "digits.onnx: No input is a tensor of…pixel_format to GRAY8."),
    ("run digits.onnx seven.png --layout yolo", 4, "seven.png: The outputs do not match the layout YOLO. Omit layout"),
    ("run digits.onnx seven.png --contract imagnet", 2, "imagnet: No file or contract…Did you mean 'imagenet'?"),
    ("contract edges.onnx --set means=1 --output out.onnx", 2, "--set means: …no such field. Did you mean 'mean'?"),
    ("contract edges.onnx --set kernel=lanczos --output out.onnx", 2, "--set kernel=lanczos: Use one of: nearest"),
    (
        "contract ids.onnx --from imagenet --output out.onnx",
        4,
        "ids.onnx: No input is…pictures in NCHW: x is Int64[1,-1,]",
    ),
)
"""A command, its exit code, and how the line begins that it prints after "Error: "; "…" is what matters less."""


@pytest.mark.parametrize(("command", "code", "line"), MISTAKES, ids=[command for command, _, _ in MISTAKES])
def test_a_mistake_has_its_line(
    command: str, code: int, line: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    before = sorted(place.iterdir())
    result = CliRunner().invoke(main, command.split(), prog_name="winml-py")
    assert (type(result.exception), result.exit_code) == (SystemExit, code)
    printed, *more = result.stderr.splitlines()
    assert more in ([], [f"Try 'winml-py {command.split()[0]} --help'."])
    assert not more or code == 2
    pattern = re.escape(line.replace("{place}/", str(place / "_")[:-1]).replace("{place}", str(place))).replace(
        "…", ".+"
    )
    assert re.match(f"Error: {pattern}", printed), printed
    assert sorted(place.iterdir()) == before
