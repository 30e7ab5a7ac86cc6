"""What type checkers find in programs that use the package: nothing in a right one, each mistake in a wrong one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT

PROGRAM = """
import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import winml_py
from PIL import Image
from winml_py import BitmapPixelFormat, ImageFeatureValue, Isolation, LearningModel, LearningModelBinding
from winml_py import LearningModelSession, LearningModelSessionOptions, MapFeatureDescriptor, Precision, SoftwareBitmap
from winml_py import Tensor, TensorFeatureDescriptor, TensorFloat, Tuning, VideoFrame, Weights, vision

class TorchTensor:
    def __dlpack__(self, *, stream: int | None = None, dl_device: tuple[int, int] | None = None) -> Any:
        return stream, dl_device

class NumbaArray:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}

options = LearningModelSessionOptions()
options.batch_size_override = 1
options.engine, options.precision, options.weights = "openvino", Precision.BFLOAT16, Weights.PRIVATE
options.engine = None
options.graph_capture = options.profiling = True
options.isolation = "process"
options.isolation = Isolation(max_memory=2 << 30)
options.isolation = {"max_memory": 2 << 30}
options.input_shape_overrides = {"image": [1, 1, 28, 28]}
options.provider_options = {"use_tf32": False, "device_id": 0}
options.log_severity, options.tuning = "error", Tuning(memory_arena=False)
threads: int = options.intra_op_num_threads
shapes: Mapping[str, tuple[int, ...]] = options.input_shape_overrides
session = LearningModelSession(LearningModel.load("digits.onnx"), options=options)
binding = LearningModelBinding(session)
frame = VideoFrame(BitmapPixelFormat.BGRA8, 28, 28)
pixels = np.zeros((28, 28), np.uint8)
binding.bind("image", ImageFeatureValue.load("seven.png"))
binding.bind("image", frame)
binding.bind("image", [frame, frame])
binding.bind("image", SoftwareBitmap.from_array(pixels, BitmapPixelFormat.GRAY8))
binding.bind("image", Image.open("seven.png"))
binding.bind("image", pixels, {"BitmapPixelFormat": BitmapPixelFormat.GRAY8})
binding.bind("image", np.zeros((1, 1, 28, 28), np.float32))
binding.bind("image", TorchTensor())
binding.bind("image", NumbaArray())
binding.bind("image", TensorFloat.from_numpy(np.zeros(3, np.float32)))
binding.bind("image", memoryview(b"1234"))
binding.bind("image", array.array("f", [1, 2]))
binding.bind("image", [bytearray(4), b"1234"])
binding.bind("image", [[1.5, 2], [3, 4]])
binding.bind("rate", 16_000)
binding.bind("rate", np.float32(1))
binding.bind("rate", "a text")
binding.bind("map", {"a": 1.0})
binding.bind("maps", [{1: 1.0}, {2: 2.0}])
binding.bind("probabilities", TensorFloat.create(), {"DisableTensorCpuSync": True})
result = session.evaluate(binding)
result = session.evaluate_features({"image": "seven.png"})
mixed = {"image": pixels, "rate": 16_000}
result = session.evaluate_features(mixed)
label: str = result.top_k(1)[0].label
score: float = result.top_k(1)[0].score
shape: tuple[int, ...] = result.outputs["probabilities"].to_numpy().shape
best = int(result["probabilities"].to_numpy()[0].argmax()), int(np.argmax(result["probabilities"]))
scores: list[float] = list(result.outputs["probabilities"].get_as_vector_view())
image: Image.Image = result["picture"].to_pil().convert("RGB")
shown: VideoFrame = result["picture"].video_frame
result["picture"].save("a.png")
tensor: TensorFloat = result["probabilities"]
probability: float = result["maps"][0]["a"]
chances: dict[str, float] = result["map"]
both = [f"{key} {value}" for key, value in result["map"].items()], len(result["maps"]), [*result["maps"]]
binding.bind("state", result["state"])

def numbers(result: winml_py.LearningModelEvaluationResult) -> Tensor | None:
    (output,) = result.outputs.values()
    if isinstance(output, ImageFeatureValue):
        output.to_pil()
    return output if isinstance(output, Tensor) else None

names: list[str] = [feature.name for feature in session.model.input_features]
sizes: tuple[int, ...] = session.model.input_features[0].shape
for feature in session.model.output_features:
    if isinstance(feature, TensorFeatureDescriptor):
        print(feature.dimension_names)
    elif isinstance(feature, MapFeatureDescriptor):
        print(feature.key_kind)
boxes = [found.box.tolist() for found in vision.detections(result)]
report = winml_py.float16.convert("a.onnx", "b.onnx")
is_good: bool = report.is_good
for result in session.evaluate_many("*.png"):
    print(result.source, result.top_k(1), result["probabilities"].to_numpy())
"""

PLANTED = {
    "options.batch_size_overide = 1": "batch_size_overide",
    "session.evalute(binding)": "evalute",
    "LearningModelSession(session.model, options)": "LearningModelDevice",
    "result.top_k('5')": "top_k",
    "report.is_god": '"is_god"',
    "options.engine = 5": "str | None",
    "options.batch_size_override = '1'": '"int"',
    "options.precision = 'float16'": '"Precision"',
    "options.profiling = 'no'": '"bool"',
    "options.isolation = True": "Isolation | str",
    "options.input_shape_overrides = {'image': 28}": "Sequence[int]",
    "binding.bind('x', object())": '"object"',
    "binding.bind('x', session)": '"LearningModelSession"',
    "binding.bind('x', None)": "None",
    "result['x'].to_nump()": '"to_nump"',
    "result.outputs['x'].to_numpy().argmx()": '"argmx"',
    "result.outputs['x'].argmax()": '"argmax"',
    "result.outputs['x'].video_fram": '"video_fram"',
    "number: int = result.outputs['x'].to_numpy()": '"int"',
    "session.model.input_features[0].shap": '"shap"',
}

STAR = """
from winml_py import *

model = LearningModel.load("digits.onnx")
print(__version__, labels_of("digits.labels.txt"))
"""

CHECKERS = {
    "mypy": ["--strict", "--cache-dir", "cache"],
    "pyright": ["--pythonpath", sys.executable],
}


def check(checker: str, folder: Path, options: list[str]) -> dict[str, dict[int, str]]:
    """What a checker says of the programs in a folder: for each file, the messages of its lines."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", checker, *options, "."]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    messages: dict[str, dict[int, str]] = {path.name: {} for path in folder.glob("*.py")}
    for name, line, message in re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error: (.*(?:\n\s{4}.*)*)", done.stdout):
        messages[name][int(line)] = messages[name].get(int(line), "") + message
    return messages


@pytest.mark.exhaustive
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_program_has_complete_types(tmp_path: Path, checker: str) -> None:
    """A strict checker takes the program, knows the type of all that it uses, and finds each mistake."""
    pytest.importorskip(checker)
    (tmp_path / "program.py").write_text(PROGRAM + "\n".join(PLANTED) + "\n")
    (tmp_path / "star.py").write_text(STAR + "vision\n")
    messages = check(checker, tmp_path, CHECKERS[checker])
    first = PROGRAM.count("\n") + 1
    assert sorted(messages["program.py"]) == list(range(first, first + len(PLANTED))), messages["program.py"]
    for number, word in enumerate(PLANTED.values(), first):
        assert word in messages["program.py"][number]
    messages["star.py"].pop(2, None)  # pyright refuses every star, unless it is of the program's own modules
    assert [*messages["star.py"]] == [STAR.count("\n") + 1]


@pytest.mark.exhaustive
def test_checkers_know_every_name_that_samples_and_pages_use(tmp_path: Path) -> None:
    """What mypy says of them is of other libraries, or of an error that is caught as a class of Python's."""
    for sample in (ROOT / "samples").glob("*.py"):
        (tmp_path / sample.name).write_text(sample.read_text(encoding="utf-8"))
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT)))
        programs = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        for number, program in enumerate(programs, 1):
            (tmp_path / f"{name}_{number}.py").write_text(program)
    pytest.importorskip("mypy")
    others = re.compile('"(ModuleSpec|Path|signedinteger|floating|make_graph|OSError|ValueError)\\b')
    options = ["--check-untyped-defs", "--ignore-missing-imports", "--cache-dir", "cache"]
    for name, lines in check("mypy", tmp_path, options).items():
        assert [text for text in lines.values() if not others.search(text)] == [], name
