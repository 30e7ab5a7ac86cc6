"""Git LFS pointers, which a clone without `git lfs pull` has in the place of large files, and cut files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from helpers.models import model, tensor
from helpers.paths import MODELS
from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, VideoReader, WinMLError, labels_of
from winml_py.cli.main import main
from winml_py.errors import CorruptModelError
from winml_py.experimental import LearningModelExperimental
from winml_py.float16 import convert

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 98234567\n"


def write_model(folder: Path, count: int) -> Path:
    """A model whose weights, of this many numbers, are in split.data."""
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Add", ["s", "v"], ["y"])]
    weights = {name: np.ones(count, np.float32) for name in ("w", "v")}
    path = folder / "split.onnx"
    proto = model(nodes, [tensor("x", [count])], [tensor("y", [count])], weights)
    onnx.save(proto, path, save_as_external_data=True, location="split.data", size_threshold=0)
    return path


def evaluate(path: Path) -> Any:
    loaded = LearningModel.load(path)
    feature: Any = loaded.input_features[0]
    return LearningModelSession(loaded).evaluate_features({"x": np.ones(feature.shape, np.float32)})


ROADS: dict[str, Callable[[Path], object]] = {
    "session": evaluate,
    "convert": lambda path: convert(path, path.with_name("out.onnx")),
    "save": lambda path: LearningModelExperimental(LearningModel.load(path)).save(path.with_name("out.onnx")),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("count", [4, 50_000])
def test_a_pointer_is_no_weights(count: int, road: str, tmp_path: Path) -> None:
    path = write_model(tmp_path, count)
    (tmp_path / "split.data").write_bytes(POINTER)
    with pytest.raises(CorruptModelError, match=r"split\.data: .*weights, got a Git LFS pointer.*git lfs pull"):
        ROADS[road](path)
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("left", [0, 8, 16, 31])
def test_weights_that_are_cut_off_are_refused(left: int, road: str, tmp_path: Path) -> None:
    path = write_model(tmp_path, 4)
    whole = (tmp_path / "split.data").read_bytes()
    (tmp_path / "split.data").write_bytes(whole[: len(whole) - 32 + left])
    with pytest.raises(CorruptModelError, match=r"split\.data: Expected at least .* bytes of weights.* cut off"):
        ROADS[road](path)


@pytest.mark.parametrize("road", ROADS)
def test_weights_that_cannot_be_opened_are_named(road: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another program holds the file on Windows."""
    path = write_model(tmp_path, 4)

    def deny(name: Any, *arguments: Any, _open: Any = open, **options: Any) -> Any:
        if str(name).endswith("split.data"):
            raise PermissionError(13, "Permission denied")
        return _open(name, *arguments, **options)

    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(
        WinMLError, match=r"split\.data: The file with the model's weights cannot be opened: Permission"
    ):
        ROADS[road](path)


def test_a_command_says_so(tmp_path: Path) -> None:
    path = write_model(tmp_path, 4)
    (tmp_path / "split.data").write_bytes(POINTER)
    result = CliRunner().invoke(main, ["run", str(path), "1,2,3,4"])
    assert (result.exit_code, "split.data: Expected the model's weights, got a Git LFS" in result.output) == (3, True)


def write(path: Path) -> Path:
    path.write_bytes(POINTER)
    return path


def evaluate_item(item: Path) -> object:
    (result,) = LearningModelSession(LearningModel.load(MODELS / "digits.onnx")).evaluate_many([item])
    return result.outputs


READERS: dict[str, Callable[[Path], object]] = {
    "model": lambda folder: LearningModel.load(write(folder / "model.onnx")),
    "model in memory": lambda _: LearningModel.load(POINTER),
    "model from a stream": lambda _: LearningModel.load(io.BytesIO(POINTER)),
    "picture": lambda folder: ImageFeatureValue.load(write(folder / "cat.jpg")),
    "picture without an ending": lambda folder: ImageFeatureValue.load(write(folder / "cat")),
    "picture in memory": lambda _: ImageFeatureValue.load(POINTER),
    "picture from a stream": lambda _: ImageFeatureValue.load(io.BytesIO(POINTER)),
    "labels": lambda folder: labels_of(write(folder / "labels.txt")),
    "video": lambda folder: VideoReader(write(folder / "clip.mp4")),
    "array": lambda folder: evaluate_item(write(folder / "x.npy")),
    "picture of a series": lambda folder: evaluate_item(write(folder / "x.png")),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_pointer_is_named_wherever_a_file_is_read(reader: str, tmp_path: Path) -> None:
    with pytest.raises(WinMLError, match=r"Expected .*, got a Git LFS pointer, .* Run `git lfs pull`"):
        READERS[reader](tmp_path)
