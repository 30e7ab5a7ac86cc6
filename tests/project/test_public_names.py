"""The public names: what appears in the stub's `__all__`, or disappears from it, is a decision."""

from __future__ import annotations

import ast
from pathlib import Path

import winml_py

STUB = ast.parse(Path(winml_py.__file__).with_suffix(".pyi").read_text())
(NAMES,) = (ast.literal_eval(node.value) for node in STUB.body if isinstance(node, ast.Assign))


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
