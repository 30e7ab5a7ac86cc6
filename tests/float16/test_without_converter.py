"""What works where onnx-ir is not installed, which `winml-py[float16]` brings: all but the converter to float16."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import MODELS, PICTURES
from helpers.processes import drop_line_of_wine
from winml_py import float16
from winml_py.errors import MissingPackageError

pytestmark = pytest.mark.one_python

BLOCKED = """
import importlib, pkgutil, sys
sys.modules["onnx_ir"] = sys.modules["sympy"] = None
"""

IMPORTS = """
import winml_py
names = [module.name for module in pkgutil.walk_packages(winml_py.__path__, "winml_py.")]
missing = []
for name in names:
    if name.endswith(("_child", ".probe", ".__main__")):  # programs
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing.append(f"{name} {error.name}")
print(len(names) > 200, *missing, sep="\\n")
"""

COMMAND = """
from winml_py.cli.main import main
main(prog_name="winml-py")
"""


def run(code: str, *arguments: object) -> tuple[int, str]:
    command = [sys.executable, "-c", BLOCKED + code, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, drop_line_of_wine(done.stdout)


def test_the_converter_alone_imports_it() -> None:
    code, out = run(IMPORTS)
    missing = [f"winml_py.float16.{name} onnx_ir" for name in ("graph_conversion", "model_file", "search")]
    assert (code, out.split("\n")) == (0, ["True", "winml_py._pyinstaller.hook-winml_py PyInstaller", *missing, ""])


def test_the_other_commands_work() -> None:
    code, out = run(COMMAND, "run", MODELS / "digits.onnx", PICTURES / "seven.png", "--top-k", 1)
    assert (code, "7" in out) == (0, True), out
    code, out = run(COMMAND, "run", MODELS / "digits_float16.onnx", PICTURES / "seven.png", "--top-k", 1)
    assert (code, "7" in out) == (0, True), out


def test_the_command_that_converts_says_what_to_install(tmp_path: Path) -> None:
    code, out = run(COMMAND, "convert", MODELS / "digits.onnx", "--output", tmp_path / "half.onnx")
    assert code == 7, out
    assert "onnx-ir, which is not installed. Run pip install 'winml-py[float16]'" in " ".join(out.split())
    assert list(tmp_path.iterdir()) == []


def test_programs_get_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(MissingPackageError, match="onnx-ir") as caught:
        float16.convert(MODELS / "digits.onnx", tmp_path / "half.onnx")
    assert caught.value.hint == "Run pip install 'winml-py[float16]'."
