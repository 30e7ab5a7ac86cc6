"""The wheel: what is in it, and nothing else; what it needs, and how it is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import winml_py
from helpers.paths import ROOT
from tools.release import wheel_problems
from winml_py.cli.examples import copy_examples

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is being released (tests/tools/release.py), or one that is built now."""
    if "WINML_PY_WHEEL" in os.environ:
        return Path(os.environ["WINML_PY_WHEEL"])
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def build_wheel(tree: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, tree]
    subprocess.run(command, check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name == f"winml_py-{winml_py.__version__}-py3-none-any.whl"
    assert wheel_problems(wheel, ROOT) == []
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"winml_py/examples/{name}" for name in copy_examples(tmp_path)} <= names
    assert {"winml_py/py.typed", "winml_py/__init__.pyi"} <= names
    assert f"winml_py-{winml_py.__version__}.dist-info/licenses/LICENSE" in names


def test_what_a_wheel_must_not_hold_is_named(wheel: Path, tmp_path: Path) -> None:
    broken = tmp_path / wheel.name
    added = ["tests/test_a.py", "winml_py/__pycache__/a.cpython-313.pyc", "winml_py/.hidden", "winml_py/a.onnx"]
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(broken, "w") as target:
        for name in source.namelist():
            if not name.endswith(("LICENSE", "py.typed")):
                target.writestr(name, source.read(name))
        for name in added:
            target.writestr(name, b"")
    licence = f"winml_py-{winml_py.__version__}.dist-info/licenses/LICENSE"
    missing = [f"missing: {licence}", "missing: winml_py/py.typed"]
    assert wheel_problems(broken, ROOT) == sorted(missing + [f"unexpected: {name}" for name in added])


def test_the_base_installation_is_without_what_converters_need(wheel: Path) -> None:
    (distribution,) = metadata.distributions(path=[str(wheel)])
    needs = [need for need in distribution.requires or [] if "extra ==" not in need]
    assert len(needs) >= 10
    assert [need for need in needs if need.startswith(("onnx-ir", "sympy"))] == []
    assert "onnx-ir>=1.1; extra == 'float16'" in (distribution.requires or [])


@pytest.mark.parametrize("address", ["", f"https://example.org/winml-py/blob/v{winml_py.__version__}/"])
def test_links_of_the_readme_lead_to_the_address_of_the_repository(address: str, tmp_path: Path) -> None:
    (tmp_path / "winml_py").mkdir()
    for name in ("LICENSE", "README.md", "winml_py/__init__.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    setting = f"replacement = ']({address.replace(winml_py.__version__, '$HFPR_VERSION')}' }}"
    text, count = re.subn(r"replacement = '.*' }", setting, (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert count == 1
    (tmp_path / "pyproject.toml").write_text(text)
    (distribution,) = metadata.distributions(path=[str(build_wheel(tmp_path, tmp_path / "dist"))])
    readme, description = (ROOT / "README.md").read_text(encoding="utf-8"), distribution.metadata["Description"]
    blocks = MarkdownIt().parse(description)
    links = [token.attrs["href"] for block in blocks for token in block.children or [] if token.type == "link_open"]
    assert len(links) == readme.count("](") > 20
    assert [link for link in links if not link.startswith(address)] == []
    assert [link for link in links if not (ROOT / link.removeprefix(address).partition("#")[0]).is_file()] == []
    assert description.replace(address, "") == readme


def test_versions_have_lower_bounds_alone() -> None:
    """A program can have any newer version beside the package; only CI pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [need for name, needs in project["optional-dependencies"].items() if name != "test" for need in needs]
    bounds = [*project["dependencies"], *extras]
    assert [need for need in bounds if not re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+(; .*)?", need)] == []


def test_the_command_is_installed() -> None:
    scripts = {
        entry.name: entry.value
        for entry in metadata.distribution("winml-py").entry_points.select(group="console_scripts")
    }
    assert scripts == {"winml-py": "winml_py.cli.main:main"}
    assert metadata.version("winml-py") == winml_py.__version__


def test_pyinstaller_finds_the_hook() -> None:
    (entry,) = metadata.distribution("winml-py").entry_points.select(group="pyinstaller40")
    assert [file.name for folder in entry.load()() for file in Path(folder).glob("hook-*")] == ["hook-winml_py.py"]


def test_the_package_is_a_program() -> None:
    for arguments in (["--version"], ["run", "--help"]):
        as_module = subprocess.run([sys.executable, "-m", "winml_py", *arguments], capture_output=True, check=True)
        as_command = subprocess.run(
            [sys.executable, "-c", "from winml_py.cli.main import main; main(prog_name='winml-py')", *arguments],
            capture_output=True,
            check=True,
        )
        assert as_module.stdout == as_command.stdout
        assert as_module.stdout.startswith((b"winml-py, version", b"Usage: winml-py run"))
