"""DirectML, in a build of ONNX Runtime by substitute: what a program sees that has it, from the list to the errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from helpers.paths import MODELS, PICTURES, ROOT


def run(code: str, folder: Path) -> str:
    """Runs a program with the substitute, and gives what it prints."""
    path = os.pathsep.join([str(ROOT / "tests" / "directml"), str(ROOT)])
    environment = os.environ | {
        "PYTHONPATH": path,
        "WINML_PY_CACHE": str(folder / "cache"),
        "WINML_PY_TEST_OPTIONS": str(folder / "options.json"),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COMMAND = "from winml_py.cli.main import main; main({words})"


def test_devices_lists_the_cards_the_best_first(tmp_path: Path) -> None:
    words = ["devices", "--json"]
    found = json.loads(run(COMMAND.format(words=words), tmp_path))["devices"]
    dml = [one for one in found if one["provider"] == "DmlExecutionProvider"]
    assert [(one["name"], one["hardware"], one["memory"], one["supports_float16"]) for one in dml] == [
        ("ACME Large", "gpu", 8192 << 20, True),
        ("ACME Small", "gpu", 128 << 20, True),
    ]
    assert [one["adapter_id"] for one in dml] == [[5, 3], [6, 0]]


CARDS = {
    "LearningModelDevice(LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE)": ("ACME Large", "1"),
    "LearningModelDevice(LearningModelDeviceKind.DIRECTX_MIN_POWER)": ("ACME Small", "0"),
    "LearningModelDevice(LearningModelDeviceKind.DIRECTX)": ("ACME Large", "1"),
    "LearningModelDevice.find('dml')": ("ACME Large", "1"),
    "LearningModelDevice.find('ACME Small')": ("ACME Small", "0"),
}


def test_a_session_runs_on_the_card_that_is_asked_for(tmp_path: Path) -> None:
    code = f"""
import json
from winml_py import *
for device in [{", ".join(CARDS)}]:
    session = LearningModelSession(LearningModel.load({str(MODELS / "digits.onnx")!r}), device)
    result = session.evaluate_features({{"image": ImageFeatureValue.load({str(PICTURES / "seven.png")!r})}})
    assert "DmlExecutionProvider" in str(session.explain()).splitlines()[0]
    options = json.load(open({str(tmp_path / "options.json")!r}))
    print(session.device.name, session.engine, result.outputs["probabilities"].to_numpy().argmax(), options)
"""
    assert run(code, tmp_path).splitlines() == [
        f"{name} DmlExecutionProvider 7 {{'device_id': '{number}'}}" for name, number in CARDS.values()
    ]


def test_options_are_directmls_and_others_are_refused(tmp_path: Path) -> None:
    code = f"""
from winml_py import *
device, model = LearningModelDevice.find("dml"), LearningModel.load({str(MODELS / "digits.onnx")!r})
options = LearningModelSessionOptions()
options.provider_options = {{"disable_metacommands": True}}
LearningModelSession(model, device, options).close()
options.provider_options = {{"disable_metacommand": True}}
try:
    LearningModelSession(model, device, options)
except InvalidArgumentError as error:
    print(error)
"""
    (line,) = run(code, tmp_path).splitlines()
    assert line == "DmlExecutionProvider has no option 'disable_metacommand'. Did you mean 'disable_metacommands'?"
    settings = json.loads((tmp_path / "options.json").read_text())
    assert settings == {"device_id": "1", "disable_metacommands": "1"}


def test_a_command_runs_on_it(tmp_path: Path) -> None:
    words = ["run", str(MODELS / "digits.onnx"), str(PICTURES / "seven.png"), "--device", "dml", "--top-k", "1"]
    assert "7" in run(COMMAND.format(words=words), tmp_path)
