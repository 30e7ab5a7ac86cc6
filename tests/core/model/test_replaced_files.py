"""Model files that are replaced before or while a session is made: never a mixture of the old and the new."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.models import model, tensor
from winml_py import (
    CorruptModelError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    ModelNotFoundError,
    Weights,
)
from winml_py.core import cache

pytestmark = pytest.mark.one_python

SMALL, LARGE = 20, 1500  # 2 * 1500 * 1500 * 4 bytes are 18 MB of weights, which the runtime maps


def chain(side: int, seed: int, doc: str) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    weights = {f"w{index}": rng.random((side, side), np.float32) / side for index in range(2)}
    nodes = [helper.make_node("MatMul", [f"h{index}", f"w{index}"], [f"h{index + 1}"]) for index in range(2)]
    return model(nodes, [tensor("h0", [1, side])], [tensor("h2", [1, side])], weights, doc_string=doc)


class Files:
    """A model in a folder, and another one, of the same layers, whose weights stand elsewhere in its files."""

    def __init__(self, folder: Path, side: int, has_data_file: bool) -> None:
        self.path = folder / "model.onnx"
        self.given = {"h0": np.random.default_rng(5).random((1, side), np.float32)}
        self._names = ["model.onnx", "model.data"] if has_data_file else ["model.onnx"]
        self._new, self._old = folder / "new", folder / "old"
        for where, seed, doc in ((folder, 0, ""), (self._new, 1, "longer " * 100)):
            where.mkdir(exist_ok=True)
            external = {"save_as_external_data": True, "location": "model.data", "size_threshold": 0}
            onnx.save(chain(side, seed, doc), where / "model.onnx", **(external if has_data_file else {}))
        self._old.mkdir()

    def replace(self, name: str = "") -> None:
        """Puts one of the new files in its place, or all."""
        for each in [name] if name else self._names:
            (self.path.parent / each).rename(self._old / each)
            (self._new / each).rename(self.path.parent / each)

    def put_back(self) -> None:
        """Puts the old files into their places again."""
        for old in self._old.iterdir():
            old.replace(self.path.parent / old.name)

    def raw(self) -> Any:
        session = onnxruntime.InferenceSession(self.path, providers=["CPUExecutionProvider"])
        return session.run(None, self.given)[0]

    def ours(self, weights: Weights = Weights.SHARED) -> Any:
        options = LearningModelSessionOptions()
        options.weights = weights
        session = LearningModelSession(LearningModel.load(self.path), None, options)
        return session.evaluate_features(self.given).outputs["h2"].to_numpy()


@pytest.mark.parametrize("has_data_file", [False, True])
@pytest.mark.parametrize("side", [SMALL, LARGE])
def test_whichever_time_a_path_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int, has_data_file: bool
) -> None:
    native = os.stat

    def stat(*arguments: Any, **named: Any) -> os.stat_result:
        """As on Windows: the time of creation, where an open file has that of the last change."""
        status = native(*arguments, **named)
        others = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
        return os.stat_result(tuple(status), others | {"st_ctime_ns": status.st_ctime_ns - 1_000_000_000})

    files = Files(tmp_path, side, has_data_file)
    expected = files.raw()
    for path in tmp_path.glob("model.*"):
        shutil.copy2(path, f"{path}.copy")
        os.replace(f"{path}.copy", path)  # with another time of creation
    if os.name == "posix":
        monkeypatch.setattr(os, "stat", stat)
    np.testing.assert_allclose(files.ours(), expected, rtol=1e-5)
    copied = pickle.loads(pickle.dumps(LearningModel.load(files.path)))
    result = LearningModelSession(copied).evaluate_features(files.given)
    np.testing.assert_allclose(result.outputs["h2"].to_numpy(), expected, rtol=1e-5)


def test_before_the_saved_graph_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, real = Files(tmp_path, LARGE, has_data_file=False), cache.open_or_make
    old = files.raw()

    def replace_first(*arguments: Any) -> Any:
        files.replace()
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(cache, "open_or_make", replace_first)
        with pytest.raises(CorruptModelError, match="has changed since the model was loaded"):
            files.ours()
    assert cache.list_saved_models() == []
    new = files.raw()
    assert np.abs(old - new).max() > 0.001
    np.testing.assert_allclose(files.ours(), new, rtol=1e-5)
    files.put_back()
    np.testing.assert_allclose(files.ours(), old, rtol=1e-5)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["model.onnx", "model.data"])
def test_between_load_and_session(tmp_path: Path, name: str, in_place: bool) -> None:
    files = Files(tmp_path, SMALL, has_data_file=True)
    loaded = LearningModel.load(files.path)
    live, options = LearningModelSession(loaded), LearningModelSessionOptions()
    options.weights = Weights.PRIVATE  # or it would share what the other session has compiled
    if in_place:  # with the same size and time of writing, as a program that copies times leaves it
        path = tmp_path / name
        data, status = path.read_bytes(), path.stat()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        files.replace(name)
    if in_place and os.name == "nt" and sys.version_info < (3, 12):
        pytest.skip("Python 3.11 tells no time of change on Windows")
    with pytest.raises(CorruptModelError, match="or a file with its weights, has changed since the model was loaded"):
        LearningModelSession(loaded, None, options)
    live.close()
    np.testing.assert_allclose(files.ours(), files.raw(), rtol=1e-5)


def test_a_data_file_may_come_after_load(tmp_path: Path) -> None:
    files = Files(tmp_path, SMALL, has_data_file=True)
    expected = files.raw()
    (tmp_path / "model.data").rename(tmp_path / "away")
    loaded = LearningModel.load(files.path)
    with pytest.raises(ModelNotFoundError, match=r"in the file model\.data"):
        LearningModelSession(loaded)
    (tmp_path / "away").rename(tmp_path / "model.data")
    result = LearningModelSession(loaded).evaluate_features(files.given).outputs["h2"].to_numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("weights", [Weights.SHARED, Weights.PRIVATE])
@pytest.mark.parametrize("is_put_back", [False, True])
@pytest.mark.parametrize(
    ("side", "has_data_file", "name"),
    [
        (SMALL, False, ""),
        (SMALL, True, ""),
        (SMALL, True, "model.onnx"),
        (SMALL, True, "model.data"),
        (LARGE, False, ""),
        (LARGE, True, "model.data"),
    ],
)
def test_while_the_runtime_opens_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    side: int,
    has_data_file: bool,
    name: str,
    is_put_back: bool,
    weights: Weights,
) -> None:
    files, real = Files(tmp_path, side, has_data_file), onnxruntime.InferenceSession
    opened = []

    def inference_session(*arguments: Any, **named: Any) -> Any:
        if not opened:
            files.replace(name)
        opened.append(arguments)
        try:
            return real(*arguments, **named)
        finally:
            if is_put_back and len(opened) == 1:
                files.put_back()

    with monkeypatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", inference_session)
        with pytest.raises(CorruptModelError, match="has changed since the model was loaded"):
            files.ours(weights)
    assert opened
    assert cache.list_saved_models() == []
    np.testing.assert_allclose(files.ours(weights), files.raw(), rtol=1e-5)


def test_while_data_files_are_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import winml_py.core.onnx_file.source as module

    files = Files(tmp_path, SMALL, has_data_file=True)

    def replaced_first(path: str, mode: str) -> Any:
        if path.endswith(".data"):
            files.replace("model.data")
        return open(path, mode)

    monkeypatch.setattr(module, "open", replaced_first, raising=False)
    with pytest.raises(CorruptModelError, match="has changed since"):
        files.ours(Weights.PRIVATE)


def test_a_data_file_that_goes_while_the_runtime_opens_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, real = Files(tmp_path, SMALL, has_data_file=True), onnxruntime.InferenceSession

    def inference_session(*arguments: Any, **named: Any) -> Any:
        session = real(*arguments, **named)
        (tmp_path / "model.data").unlink()
        return session

    monkeypatch.setattr(onnxruntime, "InferenceSession", inference_session)
    with pytest.raises(CorruptModelError, match="or a file with its weights, has changed since"):
        files.ours()
