"""Python's habits: keywords, submodules after the plain import, lists of lists, and what a type checker finds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import winml_py
from helpers.models import INT64, STRING, unary
from helpers.paths import MODELS, PICTURES, ROOT
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    LearningModelSessionOptions,
    PictureError,
    SizeMismatchError,
    SoftwareBitmap,
    Tuning,
    WinMLError,
)
from winml_py.errors import StorageNotFoundError

DIGITS = MODELS / "digits.onnx"
SEVEN = PICTURES / "seven.png"


def test_device_and_options_are_keywords() -> None:
    model, options = LearningModel.load(DIGITS), LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    with LearningModelSession(model, options=options) as session:
        assert session.get_intra_op_num_threads() == 1
    with LearningModelSession(model, device=LearningModelDevice(), options=options) as session:
        assert session.device.hardware == "cpu"
    with LearningModelSession.create_async(model, options=options).get() as session:
        assert session.get_intra_op_num_threads() == 1


def test_options_in_the_place_of_the_device_are_recognised() -> None:
    model = LearningModel.load(DIGITS)
    with pytest.raises(InvalidArgumentError, match=r"Write LearningModelSession\(model, options=options\)"):
        LearningModelSession(model, LearningModelSessionOptions())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"got int. Make them: options = LearningModelSessionOptions\(\)"):
        LearningModelSession(model, None, 3)  # type: ignore[arg-type]


def test_a_misspelt_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match=r"no 'LearningModelSesion'\. Did you mean 'LearningModelSession'\?"):
        _ = winml_py.LearningModelSesion  # type: ignore[attr-defined]


def test_capabilities_are_there_after_the_plain_import() -> None:
    """And cost nothing before they are used: not even with `from winml_py import *`."""
    code = """
import sys
import winml_py
from winml_py import *
assert not any(name.startswith("winml_py.vision") for name in sys.modules), sys.modules
names = "authoring compare distributed experimental float16 operators perf testing view vision".split()
print([name for name in names if getattr(winml_py, name).__name__ == f"winml_py.{name}"] == names)
print(set(names) <= set(dir(winml_py)), set(names) & set(winml_py.__all__))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["True", "True set()"]


@pytest.mark.parametrize("value", [SEVEN, str(SEVEN), SEVEN.read_bytes()], ids=["path", "text", "bytes"])
def test_pictures_by_path_and_bytes(value: Any) -> None:
    session = LearningModelSession(LearningModel.load(DIGITS))
    expected = session.evaluate_features_async({"image": value}).get().outputs["probabilities"].to_numpy()
    np.testing.assert_array_equal(session.evaluate_features({"image": value}).outputs["probabilities"], expected)


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [
        (STRING, [["a"], ["c"]], [["a"], ["c"]]),
        (1, [[1, 2.5], [3, 4]], [[1, 2.5], [3, 4]]),
        (INT64, ([1], (2,)), [[1], [2]]),
    ],
)
def test_lists_of_lists(element: int, value: Any, expected: Any) -> None:
    session = LearningModelSession(LearningModel.load(unary(shape=("n", len(expected[0])), element=element)))
    assert session.evaluate_features({"x": value}).outputs["y"].to_numpy().tolist() == expected


def test_lists_of_lists_that_do_not_fit_are_refused() -> None:
    session = LearningModelSession(LearningModel.load(unary(shape=("n", 2))))
    for wrong in ([[1, 2], [3]], [[1, "a"]], [[[1, 2]], [3]]):
        with pytest.raises(InvalidBindingError, match="got list of list"):
            session.evaluate_features({"x": wrong})
    with pytest.raises(SizeMismatchError):
        session.evaluate_features({"x": [[1, 2, 3]]})


def test_an_array_without_a_format_is_told_which_to_give() -> None:
    for make in (SoftwareBitmap.from_array, ImageFeatureValue.from_array):
        with pytest.raises(InvalidArgumentError, match=r"RGB8 for arrays of Pillow.*BGR8 for OpenCV's"):
            make(np.zeros((2, 2, 3), np.uint8))


def test_a_picture_of_two_bytes_is_no_picture() -> None:
    with pytest.raises(PictureError) as error:
        ImageFeatureValue.load(b"ab")
    assert str(error.value).startswith("2 bytes is not a picture that can be decoded: no decoder recognises it.")


def test_contracts_show_what_the_model_states() -> None:
    """Also where an exporter states it in words of its own."""
    metadata = {"author": "Ultralytics", "task": "detect", "imgsz": "[8, 8]"}
    model = LearningModel.load(unary(shape=(1, 3, 8, 8), metadata=metadata))
    assert dict(model.contracts) == {}
    assert "the model states {'x': <ImageContract RGB8" in repr(model.contracts)
    model.contracts["x"] = ImageContract()
    assert "states" not in repr(model.contracts)


PROGRAM = """
import array
from collections.abc import Mapping
from typing import Any

import numpy as np
import winml_py
from PIL import Image
from winml_py import BitmapPixelFormat, ImageFeatureValue, Isolation, LearningModel, LearningModelBinding
from winml_py import LearningModelSession, LearningModelSessionOptions, MapFeatureDescriptor, Precision, SoftwareBitmap
from winml_py import Tensor, TensorFeatureDescriptor, TensorFloat, Tuning, VideoFrame, VideoWriter, Weights, vision

class TorchTensor:
    def __dlpack__(self, *, stream: int | None = None, dl_device: tuple[int, int] | None = None) -> Any:
        return stream, dl_device

class NumbaArray:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {}

options = LearningModelSessionOptions()
options.batch_size_override = 1
options.engine, options.precision, options.weights = "auto", Precision.HALF, Weights.PRIVATE
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
VideoWriter("a.mp4", 25).write(result["picture"])
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
nodes: int = report.nodes
for one in session.evaluate_many("*.png"):
    print(one.source, one.top_k(1), one["probabilities"].to_numpy())
"""

PLANTED = {
    "options.batch_size_overide = 1": "batch_size_overide",
    "session.evalute(binding)": "evalute",
    "LearningModelSession(session.model, options)": "LearningModelDevice",
    "result.top_k('5')": "top_k",
    "report.node": '"node"',
    "options.engine = 5": "str | None",
    "options.batch_size_override = '1'": '"int"',
    "options.precision = 'half'": '"Precision"',
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


def errors(checker: str, folder: Path, options: list[str]) -> dict[str, dict[int, str]]:
    """What a checker says of each line of the programs in a folder, by their names."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", checker, *options, "."]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, dict[int, str]] = {path.name: {} for path in folder.glob("*.py")}
    for name, line, message in re.findall(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error: (.*(?:\n\s{4}.*)*)", done.stdout):
        found[name][int(line)] = found[name].get(int(line), "") + message
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_program_has_complete_types(tmp_path: Path, checker: str) -> None:
    """A strict checker takes the program, knows the type of all that it uses, and finds each mistake."""
    pytest.importorskip(checker)
    (tmp_path / "program.py").write_text(PROGRAM + "\n".join(PLANTED) + "\n")
    (tmp_path / "star.py").write_text(STAR + "vision\n")
    found = errors(checker, tmp_path, CHECKERS[checker])
    first = PROGRAM.count("\n") + 1
    assert sorted(found["program.py"]) == list(range(first, first + len(PLANTED))), found["program.py"]
    for number, word in enumerate(PLANTED.values(), first):
        assert word in found["program.py"][number]
    found["star.py"].pop(2, None)  # pyright refuses every star, unless it is of the program's own modules
    assert [*found["star.py"]] == [STAR.count("\n") + 1]


def test_a_star_imports_what_checkers_see() -> None:
    exec(STAR.replace("digits", str(MODELS / "digits")), names := {})
    with pytest.raises(NameError):
        exec("vision", names)


@pytest.mark.exhaustive
def test_checkers_know_every_name_that_samples_and_pages_use(tmp_path: Path) -> None:
    """What mypy says of them is of other libraries, or of an error that is caught as a class of Python's."""
    for sample in (ROOT / "samples").glob("*.py"):
        (tmp_path / sample.name).write_text(sample.read_text())
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT)))
        programs = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
        for number, program in enumerate(programs, 1):
            (tmp_path / f"{name}_{number}.py").write_text(program)
    pytest.importorskip("mypy")
    others = re.compile('"(ModuleSpec|Path|signedinteger|floating|make_graph|OSError|ValueError)\\b')
    options = ["--check-untyped-defs", "--ignore-missing-imports", "--cache-dir", "cache"]
    found = errors("mypy", tmp_path, options)
    assert [(name, text) for name, lines in found.items() for text in lines.values() if not others.search(text)] == []


# What people try next.


def test_top_k_takes_a_file_of_labels() -> None:
    """A text is a sequence of letters, too."""
    with LearningModelSession(LearningModel.load(DIGITS)) as session:
        result = session.evaluate_features({"image": SEVEN})
    path = MODELS / "digits.labels.txt"
    assert result.top_k(1, path)[0].label == result.top_k(1, str(path))[0].label == "seven"  # type: ignore[arg-type]
    with pytest.raises(StorageNotFoundError):
        result.top_k(1, "ten.letters"[:10])  # type: ignore[arg-type]


def test_a_result_has_its_outputs() -> None:
    with LearningModelSession(LearningModel.load(DIGITS)) as session:
        result = session.evaluate_features({"image": SEVEN})
    assert result["probabilities"] is result.outputs["probabilities"]
    with pytest.raises(KeyError, match="probabilites"):
        result["probabilites"]


def test_mean_and_std_go_with_their_colours() -> None:
    contract = ImageContract.imagenet()
    turned = contract.with_pixel_format(BitmapPixelFormat.BGR8)
    assert (turned.mean, turned.std) == ((0.406, 0.456, 0.485), (0.225, 0.224, 0.229))
    assert turned.with_pixel_format(BitmapPixelFormat.RGB8) == contract
    assert contract.with_pixel_format(BitmapPixelFormat.RGBA8) == contract
    with pytest.raises(InvalidArgumentError, match="are per colour"):
        contract.with_pixel_format(BitmapPixelFormat.GRAY8)
    plain = ImageContract(mean=0.5, std=0.25).with_pixel_format(BitmapPixelFormat.GRAY8)  # type: ignore[arg-type]
    assert (plain.mean, plain.std) == ((0.5,), (0.25,))
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    one, other = (LearningModelSession(LearningModel.load(unary("Identity", (1, 3, 8, 8)))) for _ in range(2))
    tensors = []
    for session, its in ((one, contract), (other, turned)):
        binding = LearningModelBinding(session)
        binding.bind("x", ImageFeatureValue.from_array(picture, BitmapPixelFormat.RGB8), {"ImageContract": its})
        tensors.append(session.evaluate(binding)["y"].to_numpy())
    np.testing.assert_array_equal(tensors[0], tensors[1][:, ::-1])


MISTAKES = {
    "LearningModel('digits.onnx')": "cannot be created from a path directly. Write LearningModel.load(path)",
    "LearningModelSession(model, LearningModelDeviceKind.CPU)": "Write LearningModelDevice(LearningModelDevice",
    "ImageContract('BGR8')": "Expected BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8 or BitmapPixelFormat.GRAY8",
    "fixed.evaluate(binding, 0.5)": "Pass a time limit by name: timeout=0.5",
    "fixed.evaluate_features({}, 0.5)": "Pass a time limit by name: timeout=0.5",
    "ImageFeatureValue.from_array(None, BitmapPixelFormat.BGR8)": "OpenCV's imread returns None where it cannot read",
    "LearningModelSession('model.onnx')": "Expected a LearningModel, got str. Load it first",
    "fixed.evaluate(None)": "Expected a LearningModelBinding",
    "fixed.evaluate_features([1])": "Expected a dict of input names and values",
    "LearningModelBinding(model)": "Write LearningModelBinding(session), where session = LearningModelSession(model)",
    "LearningModelSession(model, 'cpu')": 'Write LearningModelDevice.find("cpu")',
    "binding.bind('image', str(SEVEN), ImageContract())": 'Write {"ImageContract": contract}',
    "binding.bind('image', np.zeros((28, 28), np.float32))": "Expected rank 4, got 2: reshape it to 1 x 1 x 28 x 28",
    "binding.bind('image', np.zeros((1, 1, 28, 28), np.uint8))": "ImageFeatureValue.from_array(array, pixel_format)",
    "rates.bind('x', 16000.0)": "bind int(16000.0), or TensorInt64Bit.from_numpy(array)",
    "fixed.evaluate_features({'image': np.zeros((4, 1, 28, 28), np.float32)})": "Bind the sizes in batch_size_override",
}


@pytest.mark.parametrize("call", MISTAKES)
def test_a_mistake_in_a_program_is_told_with_what_to_do(call: str) -> None:
    model = LearningModel.load(DIGITS)
    rates = LearningModelBinding(LearningModelSession(LearningModel.load(unary("Neg", [1], INT64))))
    batches = LearningModel.load(MODELS / "digits_batch.onnx")
    fixed = LearningModelSession(batches, options=LearningModelSessionOptions())
    binding = LearningModelBinding(LearningModelSession(model))
    names = globals() | {
        "Tuning": Tuning,
        "LearningModelDeviceKind": LearningModelDeviceKind,
        "model": model,
        "binding": binding,
        "rates": rates,
        "fixed": fixed,
    }
    with pytest.raises(WinMLError, match=re.escape(MISTAKES[call])):
        eval(call, names)
