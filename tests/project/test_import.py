"""What importing the package, and loading a model, does not load."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from helpers.paths import MODELS, PICTURES, ROOT
from helpers.processes import drop_line_of_wine

PROVIDERS = "winml_py.core.runtime.providers.catalogue"
AUTHORING = "winml_py.authoring"
HEAVY = {"onnxruntime", "onnx", "cv2", "PIL", "asyncio", "click", "rich", PROVIDERS, AUTHORING}


def loaded_after(code: str) -> set[str]:
    program = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert drop_line_of_wine(done.stderr) == ""
    return HEAVY & set(done.stdout.split())


def test_a_program_that_ends_with_open_sessions_ends_in_silence() -> None:
    code = f"""
import numpy
from winml_py import LearningModel, LearningModelBinding, LearningModelSession
model = LearningModel.load({str(MODELS / "digits.onnx")!r})
session = LearningModelSession(model)
binding = LearningModelBinding(session)
result = session.evaluate_features_async({{"image": numpy.zeros((1, 1, 28, 28), numpy.float32)}}).get()
"""
    loaded_after(code)  # it checks that nothing is written to stderr


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import winml_py") == set()


def test_all_names_load_nothing_heavy() -> None:
    assert loaded_after("from winml_py import *") == set()


def test_comparing_loads_nothing_of_authoring() -> None:
    assert AUTHORING not in loaded_after("import winml_py.compare")


def test_capabilities_are_there_after_the_plain_import() -> None:
    """They cost nothing before they are used, not even with `from winml_py import *`."""
    code = """
import sys
import winml_py
from winml_py import *
assert not any(name.startswith("winml_py.vision") for name in sys.modules)
for name in winml_py._MODULES:
    assert getattr(winml_py, name).__name__ == f"winml_py.{name}"
    assert name in dir(winml_py)
    assert name not in winml_py.__all__
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_works_in_a_zip_archive(tmp_path: Path) -> None:
    """As in a zipapp: nothing that a model needs is read from a file beside a module, in child processes neither."""
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in (ROOT / "winml_py").rglob("*.py"):
            target.write(path, path.relative_to(ROOT))
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys
sys.path.insert(0, {str(archive)!r})
import winml_py
from winml_py import *
for name in dir(winml_py):
    getattr(winml_py, name)
model = LearningModel.load({str(MODELS / "digits.onnx")!r})
for isolation in (None, "process"):
    options = LearningModelSessionOptions()
    options.isolation = isolation
    with LearningModelSession(model, None, options) as session:
        binding = LearningModelBinding(session)
        binding.bind("image", ImageFeatureValue.load({str(PICTURES / "seven.png")!r}))
        print(session.evaluate(binding).outputs["probabilities"].to_numpy().argmax())
files = [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "winml_py"]
print(len(files) > 50, {{file.startswith({str(archive)!r}) for file in files}})
""")
    command = [sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, drop_line_of_wine(done.stderr)) == ("7\n7\nTrue {True}\n", "")


def test_loading_a_model_needs_no_library() -> None:
    assert loaded_after(f"import winml_py; winml_py.LearningModel.load({str(MODELS / 'digits.onnx')!r})") == set()


def test_evaluating_arrays_needs_the_engine_alone() -> None:
    code = f"""
import numpy, winml_py
session = winml_py.LearningModelSession(winml_py.LearningModel.load({str(MODELS / "digits.onnx")!r}))
session.evaluate_features({{"image": numpy.zeros((1, 1, 28, 28), numpy.float32)}})
"""
    assert loaded_after(code) == {"onnxruntime"}


def test_a_run_needs_neither_onnx_nor_opencv() -> None:
    arguments = ["run", str(MODELS / "digits.onnx"), str(PICTURES / "seven.png")]
    code = f"from winml_py.cli.main import main; main({arguments!r}, standalone_mode=False)"
    assert loaded_after(code) == {"onnxruntime", "PIL", "click", "rich"}
