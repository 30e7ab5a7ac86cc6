"""Docs and docstrings: examples run and print what they say, links and paths lead somewhere; and the site."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import click
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

import winml_py
from helpers.paths import ROOT
from winml_py import (
    WinMLError,
    float16,
)
from winml_py.cli.failures import find_exit_code
from winml_py.cli.main import main

pytestmark = [pytest.mark.once, pytest.mark.one_python]

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
GUIDES = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
SCRIPTS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), *sorted((ROOT / ".ci").glob("*"))]
MADE = {"docs/_build/html", "samples/browser/model.onnx"}
"""Paths that a command on a page makes."""

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
FOLDERS = r"(?:winml_py|tests|docs|benchmarks|models|samples|\.ci|\.github)"
IN_REPOSITORY = re.compile(rf"(?<![\w/.<-])({FOLDERS}/[\w./*-]*\w/?)(?:::(\w+))?")
"""A path, and in a test's path the name of the test."""

HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PACKAGE = Path(winml_py.__file__).parent
WITH_EXAMPLES = sorted(
    path for path in PACKAGE.rglob("*.py") if re.search(r"^\s+>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the models and samples, to run examples in."""
    for name in ("models", "samples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_examples_run_and_print_what_they_say(
    page: Path, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, code in enumerate(PYTHON.findall(page.read_text(encoding="utf-8")), 1):
        exec(compile(code, f"{page.name}, example {number}", "exec"), {"__name__": "__main__"})
        stated = re.findall(r"^(?:print\(.*\)  )?# (.*)$", code, re.MULTILINE)
        printed = " ".join(capsys.readouterr().out.split()).replace(os.sep, "/")
        if printed or re.search(r"^print\(.*\)  # ", code, re.MULTILINE):
            assert " ".join(stated) in printed


@pytest.mark.parametrize("factor", [2.0, 2.01])
def test_the_check_of_a_pytorch_model_tells_right_from_wrong(
    factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a substitute for PyTorch, whose exporter writes a model that doubles its input."""
    (code,) = re.findall(r"^```py\n(.*?)^```$", (DOCS / "tuning.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 224, 224]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    example = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    network = Mock(return_value=Mock(numpy=lambda: example * np.float32(factor)))
    export = Mock(side_effect=lambda network, inputs, path, dynamo: onnx.save(model, path))
    torch = Mock(randn=lambda *shape: example, no_grad=nullcontext, onnx=Mock(export=export))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.chdir(tmp_path)
    with nullcontext() if factor == 2 else pytest.raises(AssertionError, match="Not equal to tolerance"):
        exec(code, {"network": network})
    network.assert_called_once_with(example)


def list_anchors(page: Path) -> set[str]:
    """The headings' names in links, as GitHub makes them."""
    seen: Counter[str] = Counter()
    slugs = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        slugs.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return slugs


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")).replace("``", ""))
    for link in LINK.findall(text):
        if re.match(r"https?:", link):
            continue
        target, _, anchor = link.partition("#")
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), link
        if anchor:
            assert anchor in list_anchors(place), link


@pytest.mark.parametrize("page", [*PAGES, *GUIDES, *SCRIPTS], ids=page_name)
def test_paths_and_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path, name in IN_REPOSITORY.findall(text):
        assert path in MADE or list(ROOT.glob(path)), path
        assert not name or name in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
    for command, options in re.findall(r"`winml-py ([a-z]+)((?: --[\w-]+)*)`", text):
        known = {name for parameter in main.commands[command].params for name in parameter.opts}
        assert set(options.split()) <= known, f"{command}: {options}"


TASK_PICTURES = sorted((DOCS / "_static" / "tasks").iterdir())


@pytest.mark.exhaustive
@pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="rapidocr is not installed")
def test_the_pictures_of_tasks_are_what_the_programs_make(tmp_path: Path) -> None:
    script = DOCS / "_static" / "make_pictures.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [path.name for path in TASK_PICTURES]
    for path in TASK_PICTURES:
        with Image.open(path) as committed, Image.open(tmp_path / path.name) as rebuilt:
            assert rebuilt.size == committed.size == (960, 540)
            levels = [np.asarray(image.convert("RGB"), np.float32) for image in (rebuilt, committed)]
            assert np.abs(levels[0] - levels[1]).mean() < 4, path.name  # other fonts, and scores of changed pages


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.exhaustive] * (path.stem == "learn_contract"), id=path.stem)
        for path in WITH_EXAMPLES
    ],
)
def test_docstring_examples(path: Path, checkout: Path) -> None:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


def test_ci_calls_the_two_lines_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for language, evaluates in (("sh", "readme_line sh"), ("powershell", "windows_line")):
        assert script.count(f'eval "$({evaluates} ') == 2
        blocks = re.findall(rf"^```{language}\n.*\n```$", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)
        assert len(blocks) == 2


def list_documented_names(module: str) -> list[str]:
    """The names of a module that the reference has."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md")))
    return re.findall(rf"^\.\. auto(?:class|function):: {re.escape(module)}\.(\w+)$", pages, re.MULTILINE)


def test_the_reference_has_every_public_name_once() -> None:
    top = {name for name in winml_py.__all__ if not hasattr(winml_py.errors, name)}
    assert sorted([*list_documented_names("winml_py"), "__version__"]) == sorted(top)
    for module in (winml_py.results, winml_py.scaling):
        assert sorted(list_documented_names(module.__name__)) == sorted(module.__all__)
    assert "`winml_py.__version__`" in (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    assert sorted(list_documented_names("winml_py.float16")) == sorted(float16.__all__)
    assert list_documented_names("winml_py.testing") == ["FakeDevice"]


def read_table_rows(page: str) -> Iterator[list[str]]:
    """The cells of the page's tables, line by line."""
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def find_names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_the_table_of_errors_is_right() -> None:
    table = {find_names(row[0])[0]: row for row in read_table_rows("api/errors.md") if find_names(row[0])}
    public = {name for name in vars(winml_py.errors) if name.endswith("Error")}
    assert set(table) == public
    for name, (_, hresult, builtins, *_) in table.items():
        kind = getattr(winml_py.errors, name)
        assert int(find_names(hresult)[0], 16) == kind.hresult
        ours = [parent for parent in kind.__mro__ if issubclass(parent, WinMLError)]
        bases = {base.__name__ for parent in ours for base in parent.__bases__ if base.__module__ == "builtins"}
        assert set(find_names(builtins)) == bases - {"Exception"}


def test_the_command_line_page_has_every_command_option_and_code() -> None:
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(main.commands)
    for name, command in main.commands.items():
        described = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", sections[name]))
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert set(parameter.opts) <= described, f"{name}: {parameter.opts}"
    codes = {row[0]: row[2] for row in read_table_rows("command-line.md") if row[0].isdecimal()}
    assert sorted(codes) == list("01234567")
    for code, errors in codes.items():
        for error in find_names(errors):
            assert find_exit_code(getattr(winml_py.errors, error)("it failed")) == int(code)


def list_texts() -> str:
    """Every text in the code, a line each; what is filled in is "…"."""
    texts = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_the_messages_on_the_page_of_troubles_are_the_packages() -> None:
    """Of each message, all that does not vary."""
    texts = list_texts()
    messages = [row[0].strip("`") for row in read_table_rows("troubleshooting.md") if row[0].startswith("`")]
    assert len(messages) > 30
    for message in messages:
        for part in re.split(r"…|'|\(SIGSEGV\)|DIRECTX", message):
            assert part.strip(" .:") in texts, (message, part)


NO_SPHINX = [name for name in ("furo", "myst_parser", "sphinx") if importlib.util.find_spec(name) is None]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), "docs", str(folder / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.mark.skipif(NO_SPHINX, reason=f"not installed: {', '.join(NO_SPHINX)}; winml-py[docs] brings them")
class TestSite:
    def test_it_asks_the_network_for_nothing(self, site: Path) -> None:
        for path in site.rglob("*.html"):
            loaded = re.findall(r'<(?!a\b)\w+ [^>]*?\b(?:href|src)="([^"]*)"', path.read_text(encoding="utf-8"))
            assert [link for link in loaded if re.match(r"[a-z]+:|//", link)] == [], path
        for path in site.rglob("*.css"):
            assert (
                re.findall(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)]*""", path.read_text(encoding="utf-8")) == []
            ), path
