"""The known answers beside a model with a built-in contract, which other runtimes than Python read."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

from helpers.cli import require_exit
from helpers.paths import MODELS, PICTURES, ROOT
from helpers.planted import plant
from tools.portable import PACKAGES, VERSIONS
from winml_py import LearningModel
from winml_py.authoring import check_samples, write_samples
from winml_py.authoring.known_answers import KEY, KnownInput, read_answers


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return plant(tmp_path_factory.mktemp("planted"))


def test_each_fault_is_found_and_no_other(planted: dict[str, Path]) -> None:
    answers = Path(f"{planted['']}.answers.json").read_text()
    for fault, path in planted.items():
        model = onnx.load(path)
        helper.set_model_props(model, {KEY: answers})
        check = check_samples(LearningModel.load(model.SerializeToString()))
        assert check.is_right is not bool(fault), fault
    assert len(planted) == 6


@pytest.mark.parametrize("runtime", VERSIONS)
def test_javascript_finds_them_too(planted: dict[str, Path], runtime: str) -> None:
    if not (shutil.which("node") and (PACKAGES / "node_modules" / runtime).exists()):
        pytest.skip("tests/tools/portable.py installs what this needs")
    for fault, path in planted.items():
        command = ["node", ROOT / "samples" / "javascript" / "check.mjs", path, runtime]
        done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (int(bool(fault)), ""), (fault, done.stderr)
        assert done.stdout.splitlines()[-1] == ("wrong" if fault else "right")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_a_picture_is_stored_as_small_bytes(mode: str, tmp_path: Path) -> None:
    pictures = {"L": "gray"}.get(mode, mode.lower())
    target = tmp_path / "edges.onnx"
    require_exit("contract", MODELS / "edges.onnx", "--build-in", "--pictures", pictures, "--output", target)
    require_exit("contract", target, "--force", "--sample", PICTURES / "cat.jpg", "--output", target)
    (sample,) = json.loads((tmp_path / "edges.onnx.answers.json").read_text())["samples"]
    (known,) = read_answers(LearningModel.load(target).metadata)
    assert known.inputs["image"].to_json() == sample["inputs"]["image"]
    assert [output["tolerance"] for output in sample["outputs"]] == [1e-4]
    pixels = known.inputs["image"].make_value()
    assert 30_000 < pixels.nbytes <= 32_000
    with Image.open(PICTURES / "cat.jpg") as image:
        wanted = np.asarray(image.resize(pixels.shape[1::-1]).convert(mode))
    np.testing.assert_array_equal(pixels.squeeze(), wanted)
    write_samples(target, target, [], force=True)
    assert [file.name for file in tmp_path.iterdir()] == ["edges.onnx"]


def test_a_model_without_bytes_removes_the_answers_of_another(tmp_path: Path) -> None:
    stale = tmp_path / "edges.onnx.answers.json"
    stale.write_text("{}")
    write_samples(MODELS / "edges.onnx", tmp_path / "edges.onnx", [{}])
    assert not stale.exists()


def test_the_example_is_the_same_for_ever(tmp_path: Path) -> None:
    """JavaScript makes it by the same rule."""
    waves = KnownInput(seed=1, shape=(9, 9, 2), dtype="waves").make_value()
    assert waves.dtype == np.uint8
    assert waves[8, 6].tolist() == [100 * 2 // 32, 100 * 3 // 32]
    assert KnownInput(shape=(480, 640, 3), dtype="waves").make_value()[400, 600, 2] == 520_000 * 3 // 32 % 256


def test_a_model_of_tensors_has_no_file_beside_it(tmp_path: Path) -> None:
    write_samples(MODELS / "shapes.onnx", tmp_path / "shapes.onnx", [{}])
    assert [path.name for path in tmp_path.iterdir()] == ["shapes.onnx"]
