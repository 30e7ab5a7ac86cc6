"""A provider that nobody knew is one file: what that says holds in the list, in sessions and in errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from helpers.paths import MODELS, ROOT

LOOM = """
from winml_py.core.runtime.providers.provider import Provider, device_option

PROVIDER = Provider(
    "LoomExecutionProvider",
    rank=0,
    option_keys="device_id beads pattern",
    options=lambda target, options: {**device_option(target, options), "beads": str(options.intra_op_num_threads)},
    is_sequential=True,
    shares_lock=True,
)
"""

PROGRAM = """
import sys
from winml_py import *
from winml_py.core.base.winrt_object import inside

model = LearningModel.load(sys.argv[1])
device = LearningModelDevice.find("loom")


def session(**settings):
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 3
    for name, value in settings.items():
        setattr(options, name, value)
    return LearningModelSession(model, device, options)


one, two = session(provider_options={"pattern": "herringbone"}), session()
result = one.evaluate_features({"image": ImageFeatureValue.load(sys.argv[2])})
print(one.device.name, one.engine, result.outputs["probabilities"].to_numpy().argmax())
print(inside(one).lock is inside(two).lock)
for settings in (
    {"provider_options": {"patern": "herringbone"}},
    {"tuning": Tuning(execution_mode="parallel")},
    {"tuning": Tuning(arena_shrinkage=True)},
    {"graph_capture": True},
):
    try:
        session(**settings)
    except WinMLError as error:
        print(error)
"""


def run(folder: Path, *words: object) -> str:
    """Runs Python with the file among the providers, and a runtime that lists two cards for it."""
    file = folder / "LoomExecutionProvider.py"
    file.write_text(LOOM)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "directml"), str(ROOT)]),
        "WINML_PY_CACHE": str(folder / "cache"),
        "WINML_PY_TEST_OPTIONS": str(folder / "options.json"),
        "WINML_PY_TEST_PROVIDER": str(file),
    }
    command = [sys.executable, "-W", "error", *map(str, words)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_listed(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path, "-c", "from winml_py.cli.main import main; main(['devices', '--json'])"))[
        "devices"
    ]
    loom = [(one["name"], one["hardware"]) for one in found if one["provider"] == "LoomExecutionProvider"]
    assert loom == [("ACME Large", "gpu"), ("ACME Small", "gpu")]


def test_it_runs_with_its_option_and_its_lock_and_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    picture = ROOT / "samples" / "pictures" / "seven.png"
    said = run(tmp_path, "-c", PROGRAM, MODELS / "digits.onnx", picture).splitlines()
    assert said[:2] == ["ACME Large LoomExecutionProvider 7", "True"]
    assert said[2] == "LoomExecutionProvider has no option 'patern'. Did you mean 'pattern'?"
    assert said[3].startswith(
        "One node after the other is run by LoomExecutionProvider, and execution_mode is parallel."
    )
    assert said[4].startswith("No arena is kept by LoomExecutionProvider on its device")
    assert "cannot be recorded (constraint tensors-only)" in said[5]
    settings = json.loads((tmp_path / "options.json").read_text())
    assert settings == {"device_id": "1", "beads": "3"}  # of the session that was made last
