"""How much memory a process may take, and how much an engine takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import helper

from helpers.models import FLOAT, FLOAT16, data, tensor
from helpers.paths import MODELS
from helpers.sessions import open_session
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, Precision
from winml_py.core.base.machine import read_free_memory, read_total_memory

NO_LIMIT = str(0x7FFFFFFFFFFFF000)  # what version 1 says where there is none


def control_groups(folder: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "own").write_text(own)
    return folder / "cgroup", folder / "own"


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"memory.max": "1000\n", "memory.current": "300\n"}, 700),
        ("0::/", {"memory.max": "1000", "memory.current": "900", "memory.stat": "anon 5\ninactive_file 250\n"}, 350),
        ("0::/", {"memory.max": "1000", "memory.current": "1200"}, 0),
        (
            "0::/a/b",
            {"a/b/memory.max": "max", "a/b/memory.current": "1", "a/memory.max": "500", "a/memory.current": "100"},
            400,
        ),
        (
            "3:cpu:/x\n2:memory:/d",
            {"memory/d/memory.limit_in_bytes": "800", "memory/d/memory.usage_in_bytes": "200"},
            600,
        ),
        (  # in a container, the path is the host's
            "2:memory:/docker/1",
            {
                "memory/memory.limit_in_bytes": "800",
                "memory/memory.usage_in_bytes": "700",
                "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 50",
            },
            150,
        ),
    ],
)
def test_what_control_groups_grant(tmp_path: Path, own: str, files: dict[str, str], expected: int) -> None:
    groups = control_groups(tmp_path, own, files)
    limit = 500 if "/a/" in own else 800 if "memory:" in own else 1000
    assert (read_free_memory(*groups), read_total_memory(*groups)) == (expected, limit)


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("", {}),
        ("0::/", {"memory.max": "max", "memory.current": "5"}),
        ("2:memory:/", {"memory/memory.limit_in_bytes": NO_LIMIT, "memory/memory.usage_in_bytes": "5"}),
    ],
)
def test_without_a_limit_it_is_what_the_machine_has(
    tmp_path: Path, own: str, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real)
    assert read_free_memory(*control_groups(tmp_path, own, files)) == real.available
    assert 0 < read_free_memory() <= real.available


# Engines


@pytest.mark.usefixtures("openvino")
def test_an_engine_that_is_named_says_what_it_takes() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    for element, times in ((FLOAT, 1), (FLOAT16, 2)):
        weight = np.ones((500, 500), helper.tensor_dtype_to_np_dtype(element))
        ends = [tensor("x", ["n", 500], element)], [tensor("y", ["n", 500], element)]
        content = data([node], *ends, {"w": weight})
        options = LearningModelSessionOptions()
        options.engine, options.precision = "openvino", Precision.FLOAT32
        free = LearningModelSession(LearningModel.load(content), None, options).explain()
        options.override_named_dimension("n", 4)
        fixed = LearningModelSession(LearningModel.load(content), None, options).explain()
        assert free.memory == int(times * 2.2 * len(content))
        assert fixed.memory == int(times * 3.2 * len(content))
        assert str(free).startswith("openvino in float32: as requested; 1 call at once on ")
        assert str(free).endswith("; it uses up to about 2.2 MB")


@pytest.mark.usefixtures("openvino")
def test_onnxruntime_says_nothing_of_memory() -> None:
    assert "MB" not in str(open_session(MODELS / "digits.onnx").explain())
