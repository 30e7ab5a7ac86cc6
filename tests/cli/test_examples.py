"""`winml-py examples`: the models, pictures and programs of the documentation, copied."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.cli import call, require_exit, require_failure
from helpers.paths import MODELS, ROOT
from winml_py import _examples
from winml_py.cli import examples
from winml_py.errors import StorageNotFoundError

pytestmark = pytest.mark.one_python

EXPECTED = sorted(
    [f"models/{path.name}" for path in MODELS.iterdir() if path.suffix in (".onnx", ".txt")]
    + [f"samples/{path.name}" for path in (ROOT / "samples").iterdir() if path.suffix == ".py"]
    + [f"samples/{path.parent.name}/{path.name}" for path in (ROOT / "samples").glob("*/*.mjs")]
    + ["samples/browser/index.html"]
    + [f"samples/pictures/{name}" for name in ("README.md", "cat.jpg", "seven.png", "shapes.png")]
)


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_they_are_copied_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder"
    told = require_exit("examples", target).stdout
    assert files_below(target) == {name: (ROOT / name).read_bytes() for name in EXPECTED}
    assert f"{target}: {len(EXPECTED)} files in models and samples" in told


def test_the_line_that_it_prints_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = require_exit("examples").stdout.splitlines()[-1].split()
    assert line[:2] == ["winml-py", "run"]
    assert "seven" in require_exit(*line[1:]).stdout


def test_a_sample_finds_the_models_beside_it(tmp_path: Path) -> None:
    require_exit("examples", tmp_path)
    command = [sys.executable, "-W", "error", tmp_path / "samples" / "classify.py"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "seven"


def test_they_are_copied_again_without_harm(tmp_path: Path) -> None:
    require_exit("examples", tmp_path)
    mine, missing = tmp_path / "mine.txt", tmp_path / "models" / "blur.onnx"
    mine.write_text("mine")
    missing.unlink()
    before = (tmp_path / "models" / "digits.onnx").stat().st_mtime_ns
    require_exit("examples", tmp_path)
    assert missing.read_bytes() == (MODELS / "blur.onnx").read_bytes()
    assert (tmp_path / "models" / "digits.onnx").stat().st_mtime_ns == before
    assert mine.read_text() == "mine"


def test_a_file_of_another_content_stays_and_nothing_is_copied(tmp_path: Path) -> None:
    changed = tmp_path / "samples" / "upscale.py"
    changed.parent.mkdir()
    changed.write_text("changed by hand")
    message = require_failure(5, "examples", tmp_path)
    assert f"{changed}: This file exists and differs from the example of the same name." in message
    assert files_below(tmp_path) == {"samples/upscale.py": b"changed by hand"}


def test_a_wheel_has_them_inside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "winml_py"
    (package / "examples" / "models").mkdir(parents=True)
    monkeypatch.setattr(_examples, "__file__", str(package / "_examples.py"))
    with pytest.raises(StorageNotFoundError, match="has no examples"):
        _examples.find_examples()
    assert "has no examples" in call("examples", tmp_path / "out").stderr
    (package / "examples" / "models" / "digits.onnx").write_bytes(b"model")
    assert _examples.find_examples() == package / "examples"
    assert examples.copy_examples(tmp_path / "out") == ["models/digits.onnx"]
