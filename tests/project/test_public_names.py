"""The public names are those of `public_names.txt`: what appears, or goes, is a decision.

`python tests/project/test_public_names.py` writes that file.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import winml_py

FILE = Path(__file__).with_name("public_names.txt")
STUB = ast.parse(Path(winml_py.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
(NAMES,) = (ast.literal_eval(node.value) for node in STUB.body if isinstance(node, ast.Assign))
WINRT = """runtime system
    windows.ai.machinelearning windows.foundation windows.foundation.collections windows.graphics
    windows.graphics.imaging windows.media windows.security.cryptography windows.storage windows.storage.streams"""
"""The modules under `winml_py.winrt` that WinRT has, too; the others are how they are made."""


def names_of(name: str) -> list[str]:
    """What a module has in `__all__`, or what it has, without constants and what it imports for its own use."""
    module = importlib.import_module(name)
    statements = ast.parse(inspect.getsource(module)).body
    aliases = [alias for node in statements if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    used = {alias.asname or alias.name for alias in aliases if alias.asname != alias.name}
    others = {key for key, value in vars(module).items() if key.isupper() or inspect.ismodule(value)}
    own = {key for key in vars(module) if not key.startswith("_")} - used - others
    return [f"{name}.{each}" for each in sorted(getattr(module, "__all__", own))]


def public_names() -> list[str]:
    modules = [*sorted(winml_py._MODULES), *(f"winrt.{name}" for name in WINRT.split())]
    return [name for module in ["winml_py", *(f"winml_py.{each}" for each in modules)] for name in names_of(module)]


def test_the_public_names_are_those_of_the_file() -> None:
    assert FILE.read_text(encoding="utf-8").splitlines() == public_names()


def test_the_public_names_are_those_that_checkers_see() -> None:
    assert sorted(winml_py.__all__) == sorted(NAMES)


def test_every_public_name_can_be_had_and_nothing_else() -> None:
    for name in NAMES:
        value = getattr(winml_py, name)
        if name != "__version__":
            assert value.__name__ == name
    assert not hasattr(winml_py, "Learningmodel")
    assert set(NAMES) <= set(dir(winml_py))


def test_the_stub_imports_what_it_names() -> None:
    imports = [node for node in STUB.body if isinstance(node, ast.ImportFrom)]
    imported = {alias.name for node in imports if node.module for alias in node.names}
    capabilities = {alias.asname for node in imports if not node.module for alias in node.names}
    assert capabilities == winml_py._MODULES
    assert imported == set(NAMES) - {"__version__"}
    for node in imports:
        for alias in node.names if node.module else ():
            declared = getattr(importlib.import_module(f"winml_py.{node.module}"), alias.name)
            assert getattr(winml_py, alias.name) is declared


if __name__ == "__main__":
    FILE.write_text("\n".join([*public_names(), ""]))
