"""OpenVINO by its own package, on this processor, whoever made it."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.corpus import CORPUS
from helpers.homes import find_left, run_at_home
from helpers.models import INT64, STRING, data, tensor, unary
from helpers.paths import MODELS
from helpers.sessions import open_free_session
from winml_py import (
    CanceledError,
    ClosedError,
    CorruptModelError,
    EvaluationTimeoutError,
    InvalidArgumentError,
    InvalidDeviceError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
    NotSupportedError,
    SizeMismatchError,
    TensorFloat,
    Weights,
)
from winml_py.core.base.machine import count_usable_cores
from winml_py.core.runtime.openvino import compile as compiling
from winml_py.core.runtime.openvino import openvino_engine as module
from winml_py.core.runtime.openvino.package import translate
from winml_py.core.runtime.runs import Bound

pytestmark = [pytest.mark.usefixtures("openvino"), pytest.mark.one_python]

TEXT_OR_LISTS = "logreg_iris"
"""The one model of the corpus that gives something else than tensors."""


def native(content: bytes | Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source = content if isinstance(content, bytes) else str(content)
    return onnxruntime.InferenceSession(source, options, ["CPUExecutionProvider"])


def numbers(path: Path) -> dict[str, np.ndarray]:
    """Inputs for a model of the corpus; a free size is 64 in pictures, and 2 elsewhere."""
    rng, feeds = np.random.default_rng(0), {}
    for value in native(path).get_inputs():
        free = [2, 3, 64, 64] if len(value.shape) == 4 else [2] * len(value.shape)
        shape = [size if isinstance(size, int) else free[place] for place, size in enumerate(value.shape)]
        dtype = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int32)": np.int32}[value.type]
        feeds[value.name] = (rng.random(shape) * (256 if dtype is np.int32 else 1)).astype(dtype)
    return feeds


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [path for path in CORPUS if path.stem != TEXT_OR_LISTS], ids=lambda path: path.stem)
def test_public_models_give_the_results_of_raw_onnxruntime(path: Path) -> None:
    feeds = numbers(path)
    with open_free_session(path, engine="openvino") as opened:
        assert opened.engine == "openvino"
        raw = native(path)
        expected = {end.name: value for end, value in zip(raw.get_outputs(), raw.run(None, feeds), strict=True)}
        came = {name: np.zeros_like(value) for name, value in expected.items()}
        opened.evaluate_features(feeds | came)
    for name, value in expected.items():  # scores of 1e-5 are multiples of float32's step at 1
        assert np.abs(came[name].astype(float) - value).max() <= 1e-3 * np.abs(value).max() + 1e-6


def test_what_is_no_tensor_of_numbers_is_refused_by_name() -> None:
    (lists,) = (path for path in CORPUS if path.stem == TEXT_OR_LISTS)
    with pytest.raises(NotSupportedError, match=r"only tensors of numbers as inputs and outputs, not probabilities"):
        open_free_session(lists, engine="openvino")
    with pytest.raises(NotSupportedError, match=r"not x, y"):
        open_free_session(unary("Identity", [2], STRING), engine="openvino")


@pytest.mark.parametrize("large", [1.0, 1e6, 1e8])
def test_a_large_channel_does_not_spoil_the_others_in_lrn(large: float) -> None:
    """As ONNX defines it. ONNX Runtime's kernel adds and subtracts squares along the channels, and loses small ones."""
    x = np.float32([large, 1, 1, 1]).reshape(1, 4, 1, 1)
    content = data([helper.make_node("LRN", ["x"], ["y"], size=3)], [tensor("x", x.shape)], [tensor("y", x.shape)])
    squares = np.pad(np.square(x.ravel(), dtype=np.float64), 1)
    expected = x.ravel() / (1 + 1e-4 / 3 * (squares[:-2] + squares[1:-1] + squares[2:])) ** 0.75
    came = open_free_session(content, engine="openvino").evaluate_features({"x": x}).outputs["y"].to_numpy()
    np.testing.assert_allclose(came.ravel(), expected, rtol=1e-5)


# What is bound


def relu(shape: Any = (2, 3)) -> bytes:
    return unary("Relu", shape)


@pytest.mark.parametrize("shape", [(2, 3), ("n", 3)])
def test_arrays_are_bound_by_reference(shape: Any) -> None:
    opened = open_free_session(relu(shape), engine="openvino")
    x, y = np.float32([[1, -2, 3], [-4, 5, -6]]), np.full((2, 3), 9, np.float32)
    binding = LearningModelBinding(opened)
    binding.bind("x", x)
    binding.bind("y", y)
    opened.evaluate(binding)
    np.testing.assert_array_equal(y, [[1, 0, 3], [0, 5, 0]])
    x[:] = 7
    opened.evaluate(binding)
    np.testing.assert_array_equal(y, np.full((2, 3), 7))


def test_both_of_numpys_types_for_int64_bind() -> None:
    opened = open_free_session(unary("Neg", [3], INT64), engine="openvino")
    for kind in (np.int64, np.longlong):
        came = np.zeros(3, kind)
        opened.evaluate_features({"x": np.arange(3, dtype=kind), "y": came})
        assert came.tolist() == [0, -1, -2]


def test_an_array_that_is_bound_no_more_is_written_no_more() -> None:
    opened = open_free_session(relu(), engine="openvino")
    binding, x, y = LearningModelBinding(opened), np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    binding.bind("x", x)
    binding.bind("y", y)
    opened.evaluate(binding)
    binding.bind("y", TensorFloat.create())
    x[:] = 5
    np.testing.assert_array_equal(opened.evaluate(binding).outputs["y"].to_numpy(), x)
    np.testing.assert_array_equal(y, np.ones((2, 3)))


def test_a_read_only_array_is_read_in_every_run() -> None:
    opened = open_free_session(relu(), engine="openvino")
    x = np.ones((2, 3), np.float32)
    view = x.view()
    view.flags.writeable = False
    binding = LearningModelBinding(opened)
    binding.bind("x", view)
    np.testing.assert_array_equal(opened.evaluate(binding).outputs["y"].to_numpy(), x)
    x[:] = 4
    np.testing.assert_array_equal(opened.evaluate(binding).outputs["y"].to_numpy(), x)


def test_free_sizes_change_from_run_to_run() -> None:
    opened = open_free_session(relu(("n", "m")), engine="openvino")
    binding = LearningModelBinding(opened)
    for shape in ((1, 3), (4, 3), (2, 5), (0, 3), (1, 1)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        binding.bind("x", x)
        np.testing.assert_array_equal(opened.evaluate(binding).outputs["y"].to_numpy(), np.maximum(x, 0))
    binding.bind("x", np.ones((2, 2), np.float32))
    binding.bind("y", np.zeros((3, 3), np.float32))
    with pytest.raises(SizeMismatchError, match=r"bound to memory of shape \(3, 3\), but has the shape \(2, 2\)"):
        opened.evaluate(binding)


def test_sizes_that_the_options_fix_are_compiled() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    content = data([node], [tensor("x", ["n", 3])], [tensor("y", ["n", 3])])
    for settings in ({"n": 4}, {"x": [4, -1]}):
        options = LearningModelSessionOptions()
        options.engine = "openvino"
        for name, size in settings.items():
            if isinstance(size, int):
                options.override_named_dimension(name, size)
            else:
                options.override_input_shape(name, size)
        opened = LearningModelSession(LearningModel.load(content), None, options)
        compiled = opened._private_state.engine._native  # type: ignore[attr-defined]
        assert list(compiled.inputs[0].shape) == [4, 3]


def test_scalars_truths_and_an_input_that_comes_out() -> None:
    assert (
        open_free_session(unary("Neg", []), engine="openvino")
        .evaluate_features({"x": np.float32(3)})
        .outputs["y"]
        .to_numpy()
        == -3
    )
    booleans = (
        open_free_session(unary("Not", [2], 9), engine="openvino")
        .evaluate_features({"x": np.array([True, False])})
        .outputs["y"]
        .to_numpy()
    )
    assert booleans.tolist() == [False, True]
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["x"], ["b"])]
    ends = {name: tensor(name, [2]) for name in "xab"}
    opened = open_free_session(data(nodes, [ends["x"]], [ends["b"], ends["x"], ends["a"]]), engine="openvino")
    came = opened.evaluate_features({"x": np.float32([1, 2])}).outputs
    assert {name: value.to_numpy().tolist() for name, value in came.items()} == {name: [1, 2] for name in "bxa"}


# Where models come from


def weighty(numbers: int) -> bytes:
    weight = np.random.default_rng(0).normal(size=(numbers // 64, 64)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return data([node], [tensor("x", [1, len(weight)])], [tensor("y", [1, 64])], {"w": weight})


@pytest.mark.parametrize("weights", list(Weights))
def test_bytes_files_and_data_files_give_the_same(tmp_path: Path, weights: Weights) -> None:
    """5 million weights are more than is read whole: a session is given a skeleton, and OpenVINO the file or bytes."""
    content = weighty(5 << 20)
    one, two = tmp_path / "one.onnx", tmp_path / "two.onnx"
    one.write_bytes(content)
    parsed = onnx.load_model_from_string(content)
    onnx.save(parsed, two, save_as_external_data=True, location="two.data", size_threshold=0)
    x = np.random.default_rng(1).normal(size=(1, (5 << 20) // 64)).astype(np.float32)
    (expected,) = native(content).run(None, {"x": x})
    for source in (content, one, two):
        came = (
            open_free_session(source, engine="openvino", weights=weights)
            .evaluate_features({"x": x})
            .outputs["y"]
            .to_numpy()
        )
        np.testing.assert_allclose(came, expected, rtol=1e-3, atol=1e-2)


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(relu())
    loaded, options = LearningModel.load(path), LearningModelSessionOptions()
    options.engine = "openvino"
    path.write_bytes(unary("Neg", [2, 3]))
    with pytest.raises(CorruptModelError, match="has changed"):
        LearningModelSession(loaded, None, options)


# Errors


def ends(content: bytes) -> Any:
    return native(content).get_inputs()


def test_errors_say_why() -> None:
    with pytest.raises(NotSupportedError, match="does not support these operators of the model: Frobnicate"):
        open_free_session(unary("Frobnicate", [2]), engine="openvino")
    with pytest.raises(InvalidArgumentError, match=r"openvino has no option 'NUM_STREAM'.*NUM_STREAMS"):
        open_free_session(relu(), engine="openvino", provider_options={"NUM_STREAM": 3})
    with pytest.raises(InvalidArgumentError, match=r"OpenVINO reported: .*number of streams"):
        open_free_session(relu(), engine="openvino", provider_options={"NUM_STREAMS": "three"})
    with pytest.raises(InvalidDeviceError, match="Available: onnxruntime, openvino") as unknown:
        open_free_session(relu(), engine="none")
    assert "pip install" not in str(unknown.value)
    broken = RuntimeError("Exception from src/a.cpp:1:\nCheck 'x' failed at b.cpp:2:\n\nThe weight\tis gone\nmore\n")
    assert str(translate(broken)).startswith("OpenVINO reported: The weight is gone")
    trained = data([helper.make_node("Dropout", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])], opset=6)
    with pytest.raises(CorruptModelError, match="cannot read the model: Dropout-6: Training mode is not supported"):
        open_free_session(trained, engine="openvino")
    assert "OpenVINO cannot read the model: RuntimeError" in str(translate(RuntimeError(""), CorruptModelError))


@pytest.mark.usefixtures("all_cores")
def test_what_the_operators_refuse_is_an_evaluation_error(tmp_path: Path) -> None:
    """In a process whose OpenVINO has two threads: with one it gives an empty result (docs/troubleshooting.md)."""
    if count_usable_cores() < 2:
        pytest.skip("OpenVINO refuses it on two cores alone")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = tmp_path / "model.onnx"
    path.write_bytes(data([node], [tensor("x", ["n", "m"]), tensor("w", ["k", "l"])], [tensor("y", ["n", "l"])]))
    program = """
import sys
import numpy as np
from winml_py import *
options = LearningModelSessionOptions()
options.engine = "openvino"
session = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
try:
    session.evaluate_features({"x": np.zeros((2, 3), np.float32), "w": np.zeros((4, 5), np.float32)})
except EvaluationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert re.search(r"OpenVINO reported: .*MatMul node with name 'y' .*k_lhs == k_rhs' failed$", done.stdout.strip())


@pytest.mark.parametrize("batch", ["n", 1])
def test_nodes_that_do_nothing_take_no_names_away(batch: str | int) -> None:
    """OpenVINO leaves Dropout out, and gives the input the name of its output."""
    nodes = [helper.make_node("Dropout", ["x"], [name]) for name in ("y", "v")]
    nodes += [helper.make_node("Sub", ["x", "z"], ["w"]), helper.make_node("Dropout", ["z"], ["u"])]
    ends = [tensor(name, [batch, 2]) for name in "wyvu"]
    content = data(nodes, [tensor("z", [batch, 2]), tensor("x", [batch, 2])], ends, opset=13)
    x, z = np.float32([[1, 2]]), np.float32([[10, 20]])
    for changes in ({}, {"batch_size_override": 1}):
        outputs = open_free_session(content, engine="openvino", **changes).evaluate_features({"x": x, "z": z}).outputs
        came = {name: outputs[name].to_numpy().tolist() for name in "wyvu"}
        assert came == {"w": [[-9, -18]], "y": [[1, 2]], "v": [[1, 2]], "u": [[10, 20]]}


# Stopping, threads and closing


def long_work(count: int = 200) -> tuple[bytes, dict[str, np.ndarray]]:
    """Products of matrices that take some seconds together."""
    nodes = [helper.make_node("MatMul", [f"t{i}", "x"], [f"t{i + 1}"]) for i in range(count)]
    nodes = [helper.make_node("Identity", ["x"], ["t0"]), *nodes, helper.make_node("Relu", [f"t{count}"], ["y"])]
    content = data(nodes, [tensor("x", [700, 700])], [tensor("y", [700, 700])])
    return content, {"x": np.eye(700, dtype=np.float32)}


def test_a_run_is_stopped() -> None:
    content, feeds = long_work()
    opened = open_free_session(content, engine="openvino")
    binding = LearningModelBinding(opened)
    binding.bind("x", feeds["x"])
    with pytest.raises(EvaluationTimeoutError):
        opened.evaluate(binding, timeout=0.02)
    operation = opened.evaluate_async(binding)
    operation.cancel()
    with pytest.raises(CanceledError):
        operation.get()
    came = opened.evaluate(binding, timeout=600).outputs["y"].to_numpy()  # the binding still works
    np.testing.assert_array_equal(came, feeds["x"])


@pytest.mark.parametrize("step", ["read_model", "compile_model"])
def test_a_cancelled_start_ends_with_the_step_under_way(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO itself cannot be stopped: what comes after the step is not done."""
    native, begun, goes_on, done = compiling.get_core(), threading.Event(), threading.Event(), list[str]()

    class Slow:
        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any, **named: Any) -> Any:
                done.append(name)
                if name == step:
                    begun.set()
                    goes_on.wait(60)
                return getattr(native, name)(*arguments, **named)

            return call

    monkeypatch.setattr(compiling, "get_core", Slow)
    options = LearningModelSessionOptions()
    options.engine = "openvino"
    loaded = LearningModel.load(relu())
    operation = LearningModelSession.create_async(loaded, None, options)
    assert begun.wait(60)
    operation.cancel()
    goes_on.set()
    with pytest.raises(CanceledError):
        operation.get()
    assert done[-1] == step
    monkeypatch.undo()
    assert LearningModelSession(loaded, None, options).engine == "openvino"


def test_eight_threads_get_their_own_results() -> None:
    path = MODELS / "digits.onnx"
    opened = open_free_session(path, engine="openvino")
    pictures = np.random.default_rng(0).random((8, 1, 1, 28, 28)).astype(np.float32)
    expected = [native(path).run(None, {"image": picture})[0] for picture in pictures]

    def work(number: int) -> float:
        binding, out, worst = LearningModelBinding(opened), np.zeros((1, 10), np.float32), 0.0
        x = np.zeros((1, 1, 28, 28), np.float32)
        binding.bind("image", x)
        binding.bind("probabilities", out)
        for turn in range(200):
            which = (number + turn) % 8
            x[:] = pictures[which]
            opened.evaluate(binding)
            worst = max(worst, float(np.abs(out - expected[which]).max()))
        return worst

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(8))) <= 1e-4


def test_closing_during_a_run() -> None:
    content, feeds = long_work(60)
    opened = open_free_session(content, engine="openvino")
    binding, out = LearningModelBinding(opened), np.zeros((700, 700), np.float32)
    binding.bind("x", feeds["x"])
    binding.bind("y", out)
    compiled = opened._private_state.engine
    operation = opened.evaluate_async(binding)
    opened.close()
    try:
        operation.get()
        np.testing.assert_array_equal(out, feeds["x"])
    except ClosedError:  # it had not begun
        assert not out.any()
    with pytest.raises(ClosedError):
        compiled.run(Bound(feeds))
    with pytest.raises(ClosedError):
        opened.evaluate(binding)


def test_closing_in_the_middle_of_a_run_keeps_what_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on to its end with the memory that was bound: a read-only input, and an output of free size."""
    opened = open_free_session(relu(("n", 3)), engine="openvino")
    engine = opened._private_state.engine
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    view = x.view()
    view.flags.writeable = False
    bound = Bound({"x": view}, {"y": y})
    del view
    run = module._run

    def run_late(*arguments: Any) -> None:
        engine.close()
        run(*arguments)

    monkeypatch.setattr(module, "_run", run_late)
    assert engine.run(bound) == {}
    np.testing.assert_array_equal(y, x)
    with pytest.raises(ClosedError):
        engine.run(bound)


def test_placement() -> None:
    opened = open_free_session(unary("Sin", [4]), engine="openvino")
    assert [(node.operator, node.provider) for node in opened.assigned_nodes] == [("Math", "openvino")]


def test_profiles_are_of_onnx_runtime() -> None:
    with pytest.raises(NotSupportedError, match=r"openvino does not support the settings in options\.profiling"):
        open_free_session(unary("Sin", [4]), engine="openvino", profiling=True)


FORKING = """
import os, sys
import numpy as np
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py.errors import IllegalCallError
options = LearningModelSessionOptions()
options.engine = "openvino"
model = LearningModel.load(sys.argv[1])
x = {"image": np.zeros((1, 1, 28, 28), np.float32)}
session = LearningModelSession(model, None, options)
session.evaluate_features(x)
child = os.fork()
if not child:
    refused = 0
    try:
        session.evaluate_features(x)
    except IllegalCallError:
        refused += 1
    try:
        LearningModelSession(model, None, options)
    except IllegalCallError as error:
        refused += "cannot be used after a fork" in str(error)
    session.close()
    own = LearningModelSession(model)
    refused += own.engine == "onnxruntime" and len(own.evaluate_features(x).outputs)
    sys.exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
session.evaluate_features(x)
"""


@pytest.mark.posix("Windows has no fork")
def test_a_fork_is_refused() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, str(MODELS / "digits.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


# Telemetry


SESSION = """
import sys
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
options = LearningModelSessionOptions()
options.engine = sys.argv[2]
session = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
if sys.argv[2] == "openvino":
    assert session.engine == "openvino"
    assert sys.modules["openvino_telemetry"] is None
"""
CHILDREN = """
import multiprocessing, sys
def work():
    from openvino.tools import ovc
def main():
    exec(open(sys.argv[3]).read(), {})
    for way in ("fork", "spawn") if hasattr(__import__("os"), "fork") else ("spawn",):
        process = multiprocessing.get_context(way).Process(target=exec, args=(open(sys.argv[3]).read(), {}))
        process.start()
        process.join()
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_openvino_by_itself_leaves_files(home: Path) -> None:
    """Where it leaves none, the tests below show nothing."""
    run_at_home(home, "-c", "import openvino; import time; time.sleep(1)")
    assert find_left(home) != []


def test_a_session_leaves_no_telemetry(home: Path) -> None:
    run_at_home(home, "-c", SESSION, str(MODELS / "digits.onnx"), "openvino")
    assert find_left(home) == []


@pytest.mark.exhaustive
def test_child_processes_leave_no_telemetry(home: Path, tmp_path: Path) -> None:
    script, program = tmp_path / "session.py", tmp_path / "program.py"
    script.write_text(SESSION)
    program.write_text(CHILDREN)
    run_at_home(home, str(program), str(MODELS / "digits.onnx"), "openvino", str(script))
    run_at_home(home, "-c", "from winml_py.cli.main import main; main()", "doctor")
    assert find_left(home) == []


def test_what_the_program_imported_itself_is_left_alone(home: Path) -> None:
    code = "import openvino_telemetry, openvino\n" + SESSION.replace("is None", "is openvino_telemetry")
    run_at_home(home, "-c", code, str(MODELS / "digits.onnx"), "openvino")


@pytest.mark.parametrize("operators", [["Cast"], ["Cast", "Unsqueeze"]])
def test_an_input_that_openvino_would_overwrite(openvino: object, operators: list[str]) -> None:
    nodes, ends = [helper.make_node("Cast", ["x"], ["c"], to=1)], [tensor("x", ["n", 3])]
    nodes += [helper.make_node("Unsqueeze" if len(operators) > 1 else "Identity", ["c", "a"][: len(operators)], ["y"])]
    content = data(nodes, ends, [tensor("y", None)], {"a": np.array([0])})
    with pytest.raises(NotSupportedError, match="overwrites the input"):
        open_free_session(content, engine="openvino")
    assert open_free_session(content, engine="openvino", input_shape_overrides={"x": [2, 3]}).engine == "openvino"
