"""The optimised model on disk: right answers, one copy, and never trusted when it is damaged."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import onnx
import pytest
from filelock import FileLock
from onnx import helper

from helpers.models import chain_matrices, model, tensor
from helpers.reference import run_first
from helpers.sessions import open_session
from winml_py import (
    CanceledError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    ModelNotFoundError,
    Tuning,
    Weights,
)
from winml_py.core.base.winrt_object import inside
from winml_py.core.cache import answers, folders
from winml_py.core.runtime.ort import saved_graph as compiling

pytestmark = [pytest.mark.kept, pytest.mark.one_python]

SIDE = 1500  # 2 * 1500 * 1500 * 4 bytes are 18 MB of weights


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "chain.onnx"
    path.write_bytes(chain_matrices(SIDE))
    return path


@pytest.fixture
def one() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random((1, SIDE), np.float32)


def opened(path: Path, threads: int = 1, tuning: Tuning | None = None, **settings: Any) -> LearningModelSession:
    return open_session(path, intra_op_num_threads=threads, tuning=tuning or Tuning(), **settings)


def answer(session: LearningModelSession, one: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return session.evaluate_features({"h0": one}).outputs["h2"].to_numpy()


def graph_of(session: LearningModelSession) -> str:
    """The path of the file that the runtime was given."""
    return str(inside(session).engine._session._model_path)  # type: ignore[attr-defined]


def test_one_saved_graph_serves_sessions_of_different_threads(chain: Path, one: np.ndarray[Any, Any]) -> None:
    sessions = [opened(chain, threads) for threads in (1, 2, 3)]
    (made,) = folders.entries()
    assert {graph_of(session) for session in sessions} == {str(made.path / "graph.onnx")}
    assert len({id(inside(session).engine) for session in sessions}) == 3
    for session in sessions:
        np.testing.assert_array_equal(answer(session, one), run_first(chain, one))


def test_what_the_graph_depends_on_gets_one_of_its_own(chain: Path) -> None:
    opened(chain)
    opened(chain, tuning=Tuning(graph_optimization="basic"))
    opened(chain, tuning=Tuning(prepacking=False))
    options = LearningModelSessionOptions()
    options.override_named_dimension("rows", 1)
    LearningModelSession(LearningModel.load(chain), None, options)
    assert len(folders.entries()) == 4
    opened(chain, tuning=Tuning(memory_arena=False))
    assert len(folders.entries()) == 4


@pytest.mark.parametrize("name", ["graph.onnx", "weights.bin"])
@pytest.mark.parametrize("damage", ["cut", "empty", "gone"])
def test_a_damaged_one_is_made_again(chain: Path, one: np.ndarray[Any, Any], name: str, damage: str) -> None:
    opened(chain).close()
    (made,) = folders.entries()
    file = made.path / name
    good = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(good[: len(good) // 2] if damage == "cut" else b"")
    assert not folders.is_intact(made.path)
    np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))
    assert folders.is_intact(made.path)
    assert file.read_bytes()[:100] == good[:100]


def test_one_whose_manifest_states_something_else_is_made_again(chain: Path, one: np.ndarray[Any, Any]) -> None:
    opened(chain).close()
    (made,) = folders.entries()
    manifest = made.path / "manifest.json"
    good = json.loads(manifest.read_text())
    for bad in (
        {"sizes": {name: size + 1 for name, size in good["sizes"].items()}},
        {"sizes": "all right"},
        {"schema_version": [good["schema_version"]]},
    ):
        manifest.write_text(json.dumps(good | bad))
        assert not folders.is_intact(made.path)
        np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))
        assert json.loads(manifest.read_text()) == good | {"sizes": ANY}
        assert folders.is_intact(made.path)


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "nested", "another's"])
def test_one_without_a_manifest_of_ours_stays_as_it_is(
    chain: Path, one: np.ndarray[Any, Any], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "winml_py")
    opened(chain).close()
    (made,) = folders.entries()
    manifest = made.path / "manifest.json"
    good = manifest.read_text()
    manifest.unlink()
    bad = {
        "cut": good[: len(good) // 2],
        "empty": "",
        "nested": "[" * 100_000 + "]" * 100_000,
        "another's": good.replace(made.path.name, "0" * 40),
    }
    if damage in bad:
        manifest.write_text(bad[damage])
    before = {path: path.lstat() for path in made.path.iterdir()}
    np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))
    assert folders.entries() == []
    assert folders.clear() == 0
    folders._make_room(made.path.parent / ("f" * 40))
    after = {path: path.lstat() for path in made.path.iterdir()}
    assert [(path, status.st_ino, status.st_size) for path, status in before.items()] == [
        (path, status.st_ino, status.st_size) for path, status in after.items()
    ]
    assert "no manifest of winml-py" in caplog.text


def test_an_empty_folder_under_its_name_is_replaced(chain: Path) -> None:
    """Programs that clean up remove old files, and leave folders."""
    opened(chain).close()
    (made,) = folders.entries()
    for file in made.path.iterdir():
        file.unlink()
    opened(chain).close()
    assert folders.is_intact(made.path)


def test_one_that_the_runtime_refuses_is_made_again(
    chain: Path, one: np.ndarray[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    opened(chain).close()
    (made,) = folders.entries()
    (made.path / "graph.onnx").write_bytes(b"no graph")
    with folders.written(made.path) as folder:  # its manifest is right
        for name in ("graph.onnx", "weights.bin"):
            (Path(folder) / name).write_bytes((made.path / name).read_bytes())
    assert folders.is_intact(made.path)
    np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))
    assert "cannot be used and is made again" in caplog.text


def test_a_session_goes_on_when_its_saved_graph_is_removed(chain: Path, one: np.ndarray[Any, Any]) -> None:
    session = opened(chain)
    assert folders.clear() == 1
    assert folders.entries() == []
    np.testing.assert_array_equal(answer(session, one), run_first(chain, one))


def test_a_changed_model_is_another_one(chain: Path, one: np.ndarray[Any, Any], tmp_path: Path) -> None:
    """The times of its contents set back, too: those of its last change cannot be."""
    path = tmp_path / "model.onnx"
    path.write_bytes(chain.read_bytes())
    status = path.stat()
    first = answer(opened(path), one)
    data = bytearray(path.read_bytes())
    start = data.index(onnx.load(path).graph.initializer[0].raw_data[:64])
    data[start : start + 4 * SIDE] = np.zeros(SIDE, np.float32).tobytes()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = answer(opened(path), one)
    np.testing.assert_array_equal(changed, run_first(path, one))
    assert not np.array_equal(changed, first)


def test_none_for_small_private_and_unnamed_models(
    chain: Path, one: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_first(chain, one)
    np.testing.assert_array_equal(answer(opened(chain, weights=Weights.PRIVATE), one), expected)
    np.testing.assert_array_equal(answer(LearningModelSession(LearningModel.load(chain.read_bytes())), one), expected)
    with open(chain, "rb") as stream:
        np.testing.assert_array_equal(answer(LearningModelSession(LearningModel.load(stream)), one), expected)
    monkeypatch.setattr(compiling, "MAPPED_FROM", 1 << 30)
    opened(chain)
    assert folders.entries() == []
    monkeypatch.undo()
    monkeypatch.setenv("WINML_PY_CACHE", "")
    np.testing.assert_array_equal(answer(opened(chain), one), expected)


def test_nothing_is_kept_beyond_the_bound(chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(chain)
    (first,) = folders.entries()
    other = tmp_path / "other.onnx"
    other.write_bytes(chain.read_bytes())
    monkeypatch.setenv("WINML_PY_CACHE_LIMIT", str(int(1.5 * first.size)))
    opened(other)
    (second,) = folders.entries()
    assert second.path != first.path
    monkeypatch.setenv("WINML_PY_CACHE_LIMIT", "1000000")
    third = tmp_path / "third.onnx"
    third.write_bytes(chain.read_bytes())
    opened(third)
    assert [made.path for made in folders.entries()] == [second.path]


def test_what_was_used_last_stays(chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{name}.onnx" for name in "abc"]
    for path in paths:
        path.write_bytes(chain.read_bytes())
    made = {}
    for age, path in ((300, paths[0]), (200, paths[1])):
        opened(path)
        (made[path],) = {entry.path for entry in folders.entries()} - set(made.values())
        manifest = made[path] / "manifest.json"
        os.utime(manifest, (manifest.stat().st_mtime - age,) * 2)
    opened(paths[0])  # used again
    size = folders.entries()[0].size
    monkeypatch.setenv("WINML_PY_CACHE_LIMIT", str(int(2.5 * size)))
    opened(paths[2])
    left = {entry.path for entry in folders.entries()}
    assert made[paths[0]] in left
    assert made[paths[1]] not in left
    assert len(left) == 2


def test_a_full_disk_costs_the_saved_graph_alone(
    chain: Path, one: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(answers, "write_file", refuse)
    np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))
    assert folders.entries() == []
    folder = folders.folder_for("0" * 40, 1)
    assert folder is not None
    assert not [path for path in folder.parent.iterdir() if path.is_dir()]


def test_a_folder_that_cannot_be_written_to(
    chain: Path, one: np.ndarray[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WINML_PY_CACHE", str(tmp_path / "file" / "folder"))
    np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))


def test_somebody_elses_is_not_used(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "geteuid"):
        pytest.skip("files have no owners here")
    opened(chain)
    (made,) = folders.entries()
    assert folders.is_intact(made.path)
    if os.geteuid() == 0:
        os.chown(made.path, 1, 1)
    monkeypatch.setattr(os, "geteuid", lambda: 123456)
    assert not folders.is_intact(made.path)


def test_many_threads_make_one(chain: Path, one: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    original = folders.written
    monkeypatch.setattr(folders, "written", lambda folder, model: (written.append(folder), original(folder, model))[1])
    barrier = threading.Barrier(4)

    def work(index: int) -> np.ndarray[Any, Any]:
        barrier.wait()
        return answer(opened(chain, threads=index + 1), one)

    with ThreadPoolExecutor(4) as pool:
        for came in pool.map(work, range(4)):
            np.testing.assert_array_equal(came, run_first(chain, one))
    assert len(written) == 1


def test_a_process_killed_while_it_writes_leaves_none(chain: Path, one: np.ndarray[Any, Any]) -> None:
    code = """
import os, sys
from winml_py import LearningModel, LearningModelSession
from winml_py.core.cache import answers
answers.write_file = lambda *_: os._exit(9)
LearningModelSession(LearningModel.load(sys.argv[1]))
"""
    died = subprocess.run([sys.executable, "-c", code, chain], check=False)
    assert died.returncode == 9
    assert folders.entries() == []
    assert len(folders._unfinished_folders()) == 1
    np.testing.assert_array_equal(answer(LearningModelSession(LearningModel.load(chain)), one), run_first(chain, one))
    assert len(folders.entries()) == 1
    assert folders._unfinished_folders() == []


def test_what_was_abandoned_goes(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(chain)
    (made,) = folders.entries()
    left = made.path.parent / f".{'f' * 40}.{'0' * 16}.winml-py"
    left.mkdir()
    folders._make_room(made.path)
    assert left.is_dir()  # somebody may be writing it
    monkeypatch.setattr(folders, "ABANDONED_SECONDS", -1.0)
    folders._make_room(made.path)
    assert not left.exists()
    assert folders.is_intact(made.path)


def test_weights_in_files_beside_the_model(chain: Path, one: np.ndarray[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "apart.onnx"
    onnx.save(onnx.load(chain), path, save_as_external_data=True, location="apart.data")
    expected = run_first(chain, one)
    for settings in ({}, {"weights": Weights.PRIVATE}):
        np.testing.assert_array_equal(answer(opened(path, **settings), one), expected)
    assert len(folders.entries()) == 1


def test_private_weights_do_not_follow_the_file(chain: Path, one: np.ndarray[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "apart.onnx"
    onnx.save(onnx.load(chain), path, save_as_external_data=True, location="apart.data")
    session = opened(path, weights=Weights.PRIVATE, tuning=Tuning(prepacking=False, graph_optimization="none"))
    expected = answer(session, one)
    with open(tmp_path / "apart.data", "r+b") as file:
        file.write(bytes(1 << 20))
    np.testing.assert_array_equal(answer(session, one), expected)
    assert expected.any()


def test_sessions_do_not_read_bytes_that_are_let_go(chain: Path, one: np.ndarray[Any, Any]) -> None:
    data = bytearray(chain.read_bytes())
    loaded = LearningModel.load(bytes(data))
    options = LearningModelSessionOptions()
    options.tuning = Tuning(prepacking=False)
    options.close_model_on_session_creation = True
    session = LearningModelSession(loaded, None, options)
    del loaded
    junk = [bytes(len(data)) for _ in range(4)]  # would take the place of what was freed
    np.testing.assert_allclose(answer(session, one), run_first(chain, one), rtol=1e-5)
    assert len(junk) == 4


def test_wrong_weights_are_refused() -> None:
    from winml_py import InvalidArgumentError

    options = LearningModelSessionOptions()
    with pytest.raises(InvalidArgumentError, match=r"option weights.*Weights: SHARED, PRIVATE"):
        options.weights = "private"  # type: ignore[assignment]


def folded(path: Path) -> None:
    """Weights that underflow while they are folded: 1e-39 is a denormal number."""
    weights = {
        "w": np.full((2300, 2300), 1e-39, np.float32),
        "up": np.array(1e38, np.float32),
    }
    nodes = [helper.make_node("Mul", ["w", "up"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])]
    proto = model(nodes, [tensor("x", ["rows", 2300])], [tensor("y", ["rows", 2300])], weights)
    path.write_bytes(proto.SerializeToString())


def test_denormals_that_count_as_0_leave_nothing_behind(tmp_path: Path) -> None:
    folded(tmp_path / "m.onnx")
    code = """
import sys
import numpy as np
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions, Tuning
from winml_py.core.cache import folders
for flushes in sys.argv[2:]:
    options = LearningModelSessionOptions()
    options.tuning = Tuning(denormals_as_zero=flushes == "yes")
    session = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
result = session.evaluate_features({"x": np.ones((1, 2300), np.float32)})
print(len(folders.entries()), result.outputs["y"].to_numpy()[0, 0])
"""
    found = []
    for words in (["yes", "no"], ["no"]):  # in one process, and in the next
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "m.onnx", *words], check=True, capture_output=True, text=True
        )
        found.append(done.stdout.split())
    assert found[0][0] == "0"
    assert found[1][0] == "1"
    assert float(found[1][1]) == pytest.approx(230, rel=1e-3)


def test_weights_in_files_of_functions_are_the_models_too(tmp_path: Path) -> None:
    attribute = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR)
    attribute.t.name, attribute.t.data_type, attribute.t.data_location = "inner", 1, 1
    attribute.t.dims.append(SIDE)
    for key, value in (("location", "inner.bin"), ("offset", "0"), ("length", str(4 * SIDE))):
        attribute.t.external_data.add(key=key, value=value)
    constant = onnx.NodeProto(op_type="Constant", output=["c"])
    constant.attribute.append(attribute)
    function = helper.make_function(
        "own",
        "Plus",
        ["a"],
        ["b"],
        [constant, helper.make_node("Add", ["a", "c"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("MatMul", ["h0", "w"], ["m"]),
        helper.make_node("Plus", ["m"], ["h2"], domain="own"),
    ]
    weights = {"w": np.zeros((SIDE, 2 * SIDE), np.float32)[:, :SIDE].copy()}
    weights["more"] = np.zeros((SIDE, SIDE), np.float32)
    proto = model(nodes, [tensor("h0", ["rows", SIDE])], [tensor("h2", ["rows", SIDE])], weights)
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    loaded = LearningModel.load(path)
    with pytest.raises(ModelNotFoundError, match=r"the weight inner in the file inner\.bin"):
        LearningModelSession(loaded)
    for number in (1.0, 7.0):
        (tmp_path / "inner.bin").write_bytes(np.full(SIDE, number, np.float32).tobytes())
        came = answer(opened(path), np.zeros((1, SIDE), np.float32))
        assert set(came.reshape(-1)) == {number}


def test_another_models_under_its_name_is_not_used(chain: Path, one: np.ndarray[Any, Any]) -> None:
    opened(chain)
    (made,) = folders.entries()
    other = made.path.parent / ("0" * 40)
    shutil.copytree(made.path, other)
    assert not folders.is_intact(other)
    shutil.rmtree(other)
    os.symlink(made.path, other)
    assert not folders.is_intact(other)
    assert folders.is_intact(made.path)


def test_a_cache_that_is_read_only_is_one(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(chain)
    (made,) = folders.entries()

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert folders.is_intact(made.path)


def test_who_has_waited_too_long_neither_builds_nor_deletes(
    chain: Path, one: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(chain)
    (made,) = folders.entries()
    folders.clear()
    building = made.path.parent / f".{made.path.name}.{'0' * 16}.winml-py"
    building.mkdir()
    monkeypatch.setattr(answers, "WAIT_SECONDS", 0.2)
    with FileLock(made.path.parent / f"{made.path.name}.winml-py.lock"):
        np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))
        assert answers.clear() == 0
        assert (made.path.parent / f"{made.path.name}.winml-py.lock").exists()
    assert building.is_dir()
    assert folders.entries() == []


def test_waiting_for_another_builder_can_be_cancelled(chain: Path) -> None:
    opened(chain)
    (made,) = folders.entries()
    folders.clear()
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    with FileLock(made.path.parent / f"{made.path.name}.winml-py.lock"):
        operation = LearningModelSession.create_async(LearningModel.load(chain), None, options)
        operation.cancel()
        with pytest.raises(CanceledError):
            operation.get()  # and not after two minutes
