"""The optimised model on disk: right answers, one copy, and never trusted when it is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.corpus import OURS, SHIPPED
from helpers.models import chain_matrices, model, tensor
from helpers.raw_results import require_raw_results
from helpers.reference import run_first
from helpers.sessions import open_session
from winml_py import (
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    ModelNotFoundError,
    SizeMismatchError,
    Tuning,
    Weights,
)
from winml_py.core import cache
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.ort import saved_graph as compiling

pytestmark = [pytest.mark.one_python]

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
    return str(private_state(session).engine._native._model_path)  # type: ignore[attr-defined]


def test_one_saved_graph_serves_sessions_of_different_threads(chain: Path, one: np.ndarray[Any, Any]) -> None:
    sessions = [opened(chain, threads) for threads in (1, 2, 3)]
    (made,) = cache.list_saved_models()
    assert {graph_of(session) for session in sessions} == {str(made.path / "graph.onnx")}
    assert len({id(private_state(session).engine) for session in sessions}) == 3
    for session in sessions:
        np.testing.assert_array_equal(answer(session, one), run_first(chain, one))


@pytest.mark.parametrize("path", [*OURS, *SHIPPED], ids=lambda path: path.stem)
def test_results_over_a_saved_graph_equal_raw_onnx_runtimes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made, and then opened: nodes of every kind survive the way over the disk, subgraphs and all."""
    monkeypatch.setattr(compiling, "MAPPED_FROM", 0)
    monkeypatch.setattr(compiling, "is_flushing_denormals", lambda: False)  # other tests of this process may have
    for _ in range(2):
        require_raw_results(path)
        assert len(cache.list_saved_models()) == 1


def test_default_options_and_none_are_one_where_no_batch_is_denoted(chain: Path, tmp_path: Path) -> None:
    def open_both(path: Path) -> list[LearningModelSession]:
        loaded = LearningModel.load(path)
        return [LearningModelSession(loaded, None, options) for options in (None, LearningModelSessionOptions())]

    plain, default = open_both(chain)
    assert len(cache.list_saved_models()) == 1
    assert private_state(plain).engine is private_state(default).engine
    for session in (plain, default):
        assert answer(session, np.ones((3, SIDE), np.float32)).shape == (3, SIDE)
    denoted = onnx.load(chain)
    denoted.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    onnx.save(denoted, tmp_path / "denoted.onnx")
    plain, default = open_both(tmp_path / "denoted.onnx")
    assert len(cache.list_saved_models()) == 3
    assert answer(plain, np.ones((3, SIDE), np.float32)).shape == (3, SIDE)
    with pytest.raises(SizeMismatchError):
        answer(default, np.ones((3, SIDE), np.float32))


@pytest.mark.parametrize("is_mixed", [False, True])
def test_rearranged_weights_are_saved_where_all_can_be_read_back(
    tmp_path: Path, is_mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "MAPPED_FROM", 0)
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((1024, 1024), np.float32), "c": rng.random((4, 64, 2, 2), np.float32)}
    nodes, outputs = [helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("y", ["n", 1024])]
    if is_mixed:
        nodes.append(helper.make_node("ConvTranspose", ["p", "c"], ["q"]))
        outputs.append(tensor("q", [1, 64, 5, 5]))
    path = tmp_path / "m.onnx"
    inputs = [tensor("x", ["n", 1024]), tensor("p", [1, 4, 4, 4])]
    path.write_bytes(model(nodes, inputs[: len(nodes)], outputs, weights).SerializeToString())
    session = opened(path)
    (made,) = cache.list_saved_models()
    assert (b"prepacked_" in (made.path / "graph.onnx").read_bytes()) is not is_mixed
    values = {"x": rng.random((3, 1024), np.float32), "p": rng.random((1, 4, 4, 4), np.float32)}
    found = session.evaluate_features({feature.name: values[feature.name] for feature in session.model.input_features})
    np.testing.assert_allclose(found.outputs["y"].to_numpy(), values["x"] @ weights["w"], rtol=1e-4)


def test_what_the_graph_depends_on_gets_one_of_its_own(chain: Path) -> None:
    opened(chain)
    opened(chain, tuning=Tuning(graph_optimization="basic"))
    options = LearningModelSessionOptions()
    options.override_named_dimension("rows", 1)
    LearningModelSession(LearningModel.load(chain), None, options)
    assert len(cache.list_saved_models()) == 3
    opened(chain, tuning=Tuning(memory_arena=False), log_severity="error")
    assert len(cache.list_saved_models()) == 3
    opened(chain, allow_cpu_fallback=False)  # an option that is not known to leave the graph as it is
    assert len(cache.list_saved_models()) == 4


def test_one_that_the_runtime_refuses_is_made_again(
    chain: Path, one: np.ndarray[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    opened(chain).close()
    (made,) = cache.list_saved_models()
    graph = made.path / "graph.onnx"
    graph.write_bytes(bytes(graph.stat().st_size))
    np.testing.assert_array_equal(answer(opened(chain), one), run_first(chain, one))
    assert "cannot be used and is removed" in caplog.text


def test_a_session_goes_on_when_its_saved_graph_is_removed(chain: Path, one: np.ndarray[Any, Any]) -> None:
    session = opened(chain)
    cache.clear()  # at once, or on Windows perhaps when nobody maps it any more
    np.testing.assert_array_equal(answer(session, one), run_first(chain, one))
    assert sys.platform == "win32" or cache.list_saved_models() == []
    session.close()
    cache.clear()
    assert cache.list_saved_models() == []


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
    assert cache.list_saved_models() == []
    monkeypatch.undo()
    monkeypatch.setenv("WINML_PY_CACHE", "")
    np.testing.assert_array_equal(answer(opened(chain), one), expected)


def test_weights_in_files_beside_the_model(chain: Path, one: np.ndarray[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "apart.onnx"
    onnx.save(onnx.load(chain), path, save_as_external_data=True, location="apart.data")
    expected = run_first(chain, one)
    for settings in ({}, {"weights": Weights.PRIVATE}):
        np.testing.assert_array_equal(answer(opened(path, **settings), one), expected)
    assert len(cache.list_saved_models()) == 1


def test_private_weights_do_not_follow_the_file(chain: Path, one: np.ndarray[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "apart.onnx"
    onnx.save(onnx.load(chain), path, save_as_external_data=True, location="apart.data")
    session = opened(path, weights=Weights.PRIVATE, tuning=Tuning(graph_optimization="none"))
    expected = answer(session, one)
    with open(tmp_path / "apart.data", "r+b") as file:
        file.write(bytes(1 << 20))
    np.testing.assert_array_equal(answer(session, one), expected)
    assert expected.any()


def test_sessions_do_not_read_bytes_that_are_let_go(chain: Path, one: np.ndarray[Any, Any]) -> None:
    data = bytearray(chain.read_bytes())
    loaded = LearningModel.load(bytes(data))
    options = LearningModelSessionOptions()
    options.session_config = {"session.disable_prepacking": True}
    options.close_model_on_session_creation = True
    session = LearningModelSession(loaded, None, options)
    del loaded
    junk = [bytes(len(data)) for _ in range(4)]  # would take the place of what was freed
    np.testing.assert_allclose(answer(session, one), run_first(chain, one), rtol=1e-5)
    assert len(junk) == 4


def test_wrong_weights_are_refused() -> None:
    from winml_py import InvalidArgumentError

    options = LearningModelSessionOptions()
    with pytest.raises(InvalidArgumentError, match=r"weights cannot be .*Weights: SHARED, PRIVATE"):
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
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py.core import cache
for flushes in sys.argv[2:]:
    options = LearningModelSessionOptions()
    options.session_config = {"session.set_denormal_as_zero": "1"} if flushes == "yes" else {}
    session = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
result = session.evaluate_features({"x": np.ones((1, 2300), np.float32)})
print(len(cache.list_saved_models()), result.outputs["y"].to_numpy()[0, 0])
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
