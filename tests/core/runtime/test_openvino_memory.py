"""What OpenVINO's sessions take and give back."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.memory import SMALL, WEIGHTS, linux, measure, write_large

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("openvino")]

PROLOGUE = f"""
import os
options = LearningModelSessionOptions()
options.engine = "openvino"
def once():
    with LearningModel.load({SMALL!r}) as model, LearningModelSession(model, None, options) as session:
        assert session.engine == "openvino"
        session.evaluate_features({{"x": np.ones((1, 2), np.float32)}})
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large(tmp_path_factory.mktemp("models") / "large.onnx")


@linux
@pytest.mark.parametrize(("batch", "times"), [(-1, 2.3), (1, 3.3)])
def test_four_sessions_hold_what_one_does_and_closing_gives_it_back(large: Path, batch: int, times: float) -> None:
    one, four, left = measure(
        f"""{PROLOGUE}
once()
options.override_input_shape("h0", [{batch}, -1])
before = resident()
model = LearningModel.load(path)
sessions = []
def add():
    sessions.append(LearningModelSession(model, None, options))
    sessions[-1].evaluate_features({{"h0": np.ones((1, 2048), np.float32)}})
    return resident() - before
one = add()
four = [add() for _ in range(3)][-1]
for session in sessions:
    session.close()
print(one, four, resident() - before)
""",
        large,
    )
    assert WEIGHTS * 0.9 < one < WEIGHTS * times
    assert four < one * 1.1
    assert left < WEIGHTS * 0.08


@linux
def test_cycles_leave_no_memory_files_or_threads(large: Path) -> None:
    second, last, files, threads = measure(
        f"""{PROLOGUE}
def state():
    return resident(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
once()
once()
before = state()
for _ in range(98):
    once()
after = state()
print(before[0], after[0], after[1] - before[1], after[2] - before[2])
""",
        large,
    )
    assert last < second * 1.01
    assert files == threads == 0
