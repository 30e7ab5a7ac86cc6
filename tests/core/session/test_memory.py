"""What stays behind: nothing, after sessions and models are closed. Each case runs in a fresh process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from packaging.version import Version

from helpers.memory import WEIGHTS, linux, measure, write_large
from helpers.models import INT64, model, tensor
from helpers.paths import MODELS, PICTURES

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large(tmp_path_factory.mktemp("models") / "large.onnx")


@linux
def test_loading_brings_no_weights_into_memory(large: Path) -> None:
    (grown,) = measure(
        """
LearningModel.load(path)
before = resident()
models = [LearningModel.load(path) for _ in range(50)]
print(resident() - before)
""",
        large,
    )
    assert grown < 4


@linux
def test_the_second_start_leaves_the_weights_in_their_file(large: Path) -> None:
    """Up to ONNX Runtime 1.31, none of them is read before the first evaluation. 1.32 reads those that its kernels have
    rearranged, to compare them (see docs/troubleshooting.md); the others, which no kernel reads, stay unread."""
    code = """
small()
import hashlib, onnx, platformdirs, psutil  # libraries for large models count as files
before = [resident(key) for key in ("RssAnon", "RssFile")]
session = LearningModelSession(LearningModel.load(path))
print(*(resident(key) - size for key, size in zip(("RssAnon", "RssFile"), before)))
session.evaluate_features({"h0": np.ones((1, 2048), np.float32)})
print(*(resident(key) - size for key, size in zip(("RssAnon", "RssFile"), before)))
"""
    measure(code, large)
    started, mapped_at_start, anonymous, mapped = measure(code, large)
    verifies = Version(onnxruntime.__version__) >= Version("1.32")
    assert started < WEIGHTS * 0.05
    assert mapped_at_start < WEIGHTS * (1.05 if verifies else 0.05)
    assert anonymous < WEIGHTS * 0.05
    assert WEIGHTS * 0.95 < mapped < WEIGHTS * 1.1


@linux
@pytest.mark.parametrize("threads", ["1", "1 + index"], ids=["equal options", "other threads"])
def test_four_sessions_hold_one_copy(large: Path, threads: str) -> None:
    one, four = measure(
        f"""
small()
model = LearningModel.load(path)
sessions = []
def add(index):
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = {threads}
    sessions.append(LearningModelSession(model, None, options))
    sessions[-1].evaluate_features({{"h0": np.ones((1, 2048), np.float32)}})
before = share()
add(0)
one = share() - before
for index in range(1, 4):
    add(index)
print(one, share() - before)
""",
        large,
    )
    assert WEIGHTS * 0.9 < one < WEIGHTS * 1.4
    assert four < one * 1.2 + 4


@linux
def test_bytes_are_not_copied_by_a_parser(large: Path) -> None:
    """The engine copies what it rearranges, and what stands at an odd address: once, where parsing took a second."""
    ours, peak, raw = measure(
        """
small()
data = open(path, "rb").read()
before, highest = resident(), resident("VmHWM")
session = LearningModelSession(LearningModel.load(data))
ours, peak = resident() - before, resident("VmHWM") - highest
session.close()
before = resident()
import onnxruntime
session = onnxruntime.InferenceSession(data)
print(ours, peak, resident() - before)
""",
        large,
    )
    assert ours < WEIGHTS * 1.1
    assert peak < WEIGHTS * 1.9
    assert ours < raw * 0.7


@linux
@pytest.mark.parametrize("kind", ["matrices", "table", "data file"])
def test_a_session_from_bytes_holds_one_copy_once_they_are_let_go(large: Path, tmp_path: Path, kind: str) -> None:
    """Of weights that kernels rearrange, and of those that they do not; and of files that a session has read whole."""
    path = tmp_path / "model.onnx"
    if kind == "table":
        rows = np.ones((WEIGHTS << 9, 512), np.float32)
        node = helper.make_node("Gather", ["rows", "h0"], ["y"])
        proto = model([node], [tensor("h0", [None], INT64)], [tensor("y", [None, 512])], {"rows": rows})
        path.write_bytes(proto.SerializeToString())
    else:
        apart = {"save_as_external_data": True, "location": "weights.data"} if kind == "data file" else {}
        onnx.save(onnx.load(large), path, **apart)
    (held,) = measure(
        f"""
small()
before = resident()
options = LearningModelSessionOptions()
options.weights = Weights.PRIVATE
model = LearningModel.load({"path" if kind == "data file" else "open(path, 'rb').read()"})
session = LearningModelSession(model, None, options)
model.dispose()
x = np.ones((1, 2048), np.float32) if {kind != "table"} else np.array([3])
session.evaluate_features({{"h0": x}})
print(resident() - before)
""",
        path,
    )
    assert WEIGHTS * 0.9 < held < WEIGHTS * 1.15


@linux
@pytest.mark.parametrize("weights", ["SHARED", "PRIVATE"])
def test_closing_gives_the_weights_back_again_and_again(large: Path, weights: str) -> None:
    """The first start, which writes the optimised model, and all later ones."""
    first, last = measure(
        f"""
import onnx  # which writing the optimised model imports
def once(source):
    options = LearningModelSessionOptions()
    options.weights = Weights.{weights}
    with LearningModel.load(source) as model, LearningModelSession(model, None, options) as session:
        session.evaluate_features({{"h0": np.ones((1, 2048), np.float32)}})
small()
baseline = resident()
once(path)
first = resident() - baseline
for _ in range(8):
    once(path)
print(first, resident() - baseline)
""",
        large,
    )
    assert first < 6
    assert last < 6


@linux
@pytest.mark.parametrize("kind", ["tensors", "pictures", "operators"])
def test_cycles_leave_no_memory_files_or_threads(kind: str) -> None:
    """Load, session, evaluate, dispose; memory may grow by 1 % after the first cycles, files and threads by none."""
    value = f"ImageFeatureValue.load({str(PICTURES / 'seven.png')!r})" if kind == "pictures" else "numbers"
    operators = "[relu]" if kind == "operators" else "[]"
    memory, files, threads = measure(
        f"""
import os
numbers = np.zeros((1, 1, 28, 28), np.float32)
relu = CustomOperator(lambda x: np.maximum(x, 0), "Relu", "", outputs=[(np.float32, None)])
def cycles(count):
    for _ in range(count):
        model = LearningModel.load(path, operators={operators})
        with model, LearningModelSession(model) as session:
            binding = LearningModelBinding(session)
            binding.bind("image", {value})
            session.evaluate(binding).outputs["probabilities"].to_numpy().copy()
def state():
    return resident(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
cycles(6)
before = state()
cycles(54)
after = state()
print(after[0] / before[0] - 1, after[1] - before[1], after[2] - before[2])
""",
        MODELS / "digits.onnx",
    )
    assert memory < 0.01
    assert (files, threads) == (0, 0)


@linux
def test_evaluating_again_and_again_takes_no_more_memory() -> None:
    first, last = measure(
        """
session = LearningModelSession(LearningModel.load(path))
def some():
    for _ in range(3000):
        session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
some()
first = resident()
for _ in range(5):
    some()
print(first, resident())
""",
        MODELS / "digits.onnx",
    )
    assert last < first + 4


@linux
def test_a_model_of_more_than_two_gigabytes_is_mapped(tmp_path: Path) -> None:
    """A sparse file of 2.25 GB, of which one row is read: neither copied into memory nor to disk."""
    rows, width = 1_100_000, 512
    table = onnx.TensorProto(name="table", data_type=1, dims=[rows, width], data_location=1)
    for key, value in (("location", "table.bin"), ("offset", "0"), ("length", str(4 * rows * width))):
        table.external_data.add(key=key, value=value)
    node = helper.make_node("Gather", ["table", "row"], ["y"])
    proto = model([node], [tensor("row", [1], INT64)], [tensor("y", [1, width])])
    proto.graph.initializer.append(table)
    path = tmp_path / "large.onnx"
    path.write_bytes(proto.SerializeToString())
    with open(tmp_path / "table.bin", "wb") as file:
        file.truncate(4 * rows * width)
        file.seek(4 * (rows - 1) * width)
        file.write(np.full(width, 7, np.float32).tobytes())
    total, grown = measure(
        f"""
small()
before = resident("VmHWM")
session = LearningModelSession(LearningModel.load(path))
result = session.evaluate_features({{"row": np.array([{rows - 1}])}}).outputs["y"].to_numpy()
print(result.sum(), resident("VmHWM") - before)
""",
        path,
    )
    assert total == 7 * width
    assert grown < 20
