"""What OpenVINO compiled, on disk: right answers, one file for many starts, and never trusted when it is damaged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.models import chain_matrices, model, tensor
from helpers.sessions import make_options
from winml_py import CanceledError, LearningModel, LearningModelSession, LearningModelSessionOptions, Weights
from winml_py.core import cache
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.openvino import compile as openvino_compile

pytestmark = [pytest.mark.one_python, pytest.mark.usefixtures("openvino")]

SIDE = 300
X = np.random.default_rng(1).random((2, SIDE), np.float32)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "chain.onnx"
    path.write_bytes(chain_matrices(SIDE))
    return path


def opened(source: Path | bytes, rows: int | None = None, **settings: Any) -> LearningModelSession:
    options = make_options(**{"engine": "openvino"} | settings)
    if rows is not None:
        options.override_named_dimension("rows", rows)
    return LearningModelSession(LearningModel.load(source), None, options)


def is_right(session: LearningModelSession, path: Path) -> bool:
    native = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (expected,) = native.run(None, {"h0": X})
    return np.allclose(session.evaluate_features({"h0": X}).outputs["h2"].to_numpy(), expected, rtol=1e-4)


def is_from_disk(session: LearningModelSession) -> bool:
    return "blob" in vars(private_state(session).engine._native)  # type: ignore[attr-defined]


@contextmanager
def compiling(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The models that are compiled within the block."""
    compiled: list[object] = []
    compile_model = openvino_compile.compile_with_openvino
    with monkeypatch.context() as patch:
        patch.setattr(
            openvino_compile, "compile_with_openvino", lambda *given: compiled.append(given) or compile_model(*given)
        )
        yield compiled


def test_a_model_is_compiled_once(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with compiling(monkeypatch) as compiled:
        sessions = [opened(chain) for _ in range(3)]
    assert len(compiled) == 1
    assert all(map(is_from_disk, sessions))
    (made,) = cache.list_saved_models()
    assert made.model == str(chain)
    assert {file.name for file in made.path.iterdir()} == {"compiled.blob", cache.MODEL}
    for session in sessions:
        assert is_right(session, chain)
        assert [node.provider for node in session.assigned_nodes] == ["openvino"] * len(session.assigned_nodes)


def test_the_file_and_the_model_may_go_while_a_session_uses_them(chain: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.onnx"
    path.write_bytes(chain.read_bytes())
    session = opened(path)
    assert is_from_disk(session)
    assert cache.clear() == 1
    path.unlink()
    junk = [bytearray(1 << 20) for _ in range(8)]
    assert is_right(session, chain)
    assert len(junk) == 8


@pytest.mark.usefixtures("all_cores")
def test_what_a_compiled_model_depends_on_gets_one_of_its_own(chain: Path, tmp_path: Path) -> None:
    opened(chain)
    opened(chain, rows=2)
    opened(chain, rows=3)
    opened(chain, intra_op_num_threads=1)
    opened(chain, provider_options={"ENABLE_HYPER_THREADING": "NO"})
    changed = tmp_path / "changed.onnx"
    changed.write_bytes(chain.read_bytes())
    opened(changed)
    assert len(cache.list_saved_models()) == 6
    assert is_right(opened(chain, rows=2), chain)
    assert len(cache.list_saved_models()) == 6


def test_a_changed_model_is_another_one(chain: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(chain.read_bytes())
    assert is_right(opened(path), chain)
    proto = onnx.load(chain)
    proto.graph.node[0].op_type = "Gemm"
    path.write_bytes(proto.SerializeToString())
    assert is_right(opened(path), path)
    first, second = cache.list_saved_models()
    assert first.path != second.path


def test_none_for_small_private_and_unnamed_models(chain: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.onnx"
    node = helper.make_node("Relu", ["h0"], ["h2"])
    ends = [tensor("h0", ["rows", SIDE])], [tensor("h2", ["rows", SIDE])]
    small.write_bytes(model([node], *ends).SerializeToString())
    assert is_right(opened(small), small)
    assert is_right(opened(chain, weights=Weights.PRIVATE), chain)
    assert is_right(opened(chain.read_bytes()), chain)
    assert cache.list_saved_models() == []


# Damage


@pytest.mark.parametrize("text", [b"", b"<?xml no model", bytes(4000)])
def test_one_that_openvino_refuses_is_made_again(chain: Path, caplog: pytest.LogCaptureFixture, text: bytes) -> None:
    opened(chain).close()
    (made,) = cache.list_saved_models()
    (made.path / "compiled.blob").write_bytes(text)
    with caplog.at_level(logging.WARNING):
        assert is_right(opened(chain), chain)
    assert "cannot be used and is removed" in caplog.text
    caplog.clear()
    assert is_from_disk(opened(chain))
    assert not caplog.text


class Full:
    """A file on a disk that is full after some bytes."""

    def __init__(self, file: Any, room: int, error: BaseException) -> None:
        self._file, self._room, self._error = file, room, error

    def write(self, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise self._error
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def fill_after(monkeypatch: pytest.MonkeyPatch, room: int, error: BaseException) -> None:
    pieces = openvino_compile._Pieces
    monkeypatch.setattr(openvino_compile, "_Pieces", lambda file, check: pieces(Full(file, room, error), check))


def test_an_interrupt_in_the_middle_of_writing_ends_the_program(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_after(monkeypatch, 200_000, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        opened(chain)
    assert cache.list_saved_models() == []


@pytest.mark.parametrize("room", [0, 200_000])
def test_a_full_disk_costs_the_saved_model_alone(chain: Path, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_after(monkeypatch, room, OSError(28, "No space left on device"))
    session = opened(chain)
    assert is_right(session, chain)
    assert not is_from_disk(session)
    assert cache.list_saved_models() == []
    where = cache.find_folder()
    assert where is not None
    assert [path for path in where.iterdir() if path.is_dir()] == []


# Several at once


def test_cancelling_ends_the_writing(chain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, writes = LearningModelSessionOptions(), threading.Event()
    options.engine = "openvino"
    write, cancelled = openvino_compile._Pieces.write, threading.Event()

    def late(pieces: Any, piece: bytes) -> int:
        writes.set()
        cancelled.wait(60)
        return write(pieces, piece)

    monkeypatch.setattr(openvino_compile._Pieces, "write", late)
    operation = LearningModelSession.create_async(LearningModel.load(chain), None, options)
    assert writes.wait(60)
    operation.cancel()
    cancelled.set()
    with pytest.raises(CanceledError):
        operation.get()
    assert cache.list_saved_models() == []
