"""README, docs and docstrings: every example runs and prints what it says, every link leads somewhere; and the site."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

import winml_py
from helpers.models import data, model, tensor, unary
from helpers.paths import ROOT
from helpers.sessions import open_session
from helpers.waiting import wait_until
from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    SoftwareBitmap,
    TensorFloat,
    VideoReader,
    WinMLError,
    float16,
)
from winml_py.cli.doctor import _clash
from winml_py.cli.failures import status_of
from winml_py.cli.main import main
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.ort.device_binding import not_capturable
from winml_py.core.runtime.ort.errors import translate

pytestmark = [pytest.mark.once, pytest.mark.one_python]

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PACKAGE = Path(winml_py.__file__).parent
WITH_EXAMPLES = sorted(path for path in PACKAGE.rglob("*.py") if re.search(r"^\s+>>> ", path.read_text(), re.MULTILINE))


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
    for number, code in enumerate(PYTHON.findall(page.read_text()), 1):
        exec(compile(code, f"{page.name}, example {number}", "exec"), {"__name__": "__main__"})
        stated = re.findall(r"^(?:print\(.*\)  )?# (.*)$", code, re.MULTILINE)
        printed = " ".join(capsys.readouterr().out.split())
        if printed or re.search(r"^print\(.*\)  # ", code, re.MULTILINE):
            assert " ".join(stated) in printed


def anchors(page: Path) -> set[str]:
    """The headings' names in links, as GitHub makes them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", FENCED.sub("", page.read_text()).replace("``", ""))
    for link in LINK.findall(text):
        if re.match(r"https?:", link):
            continue
        target, _, anchor = link.partition("#")
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), link
        if anchor:
            assert anchor in anchors(place), link


TASKS = sorted((DOCS / "tasks").glob("*.md"))
TASK_PICTURES = sorted((DOCS / "_static" / "tasks").iterdir())


@pytest.mark.parametrize("page", TASKS, ids=page_name)
def test_every_task_has_a_picture_a_command_a_program_and_help(page: Path) -> None:
    text = page.read_text()
    (picture,) = re.findall(r"!\[[^\]]{20,}\]\((.*)\)", text)
    assert (page.parent / picture).resolve() in TASK_PICTURES
    headings = HEADING.findall(FENCED.sub("", text))
    order = [headings.index(name) for name in ("What you need", "From a shell", "In a program", "What goes wrong")]
    assert order == sorted(order)
    assert "```sh" in text
    assert PYTHON.findall(text)
    assert f"{Path(picture).name})]({page.relative_to(DOCS).as_posix()})" in (DOCS / "index.md").read_text()


@pytest.mark.exhaustive
@pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="rapidocr is not installed")
def test_the_pictures_of_tasks_are_what_the_programs_make(tmp_path: Path) -> None:
    script = DOCS / "_static" / "make_pictures.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [path.name for path in TASK_PICTURES]
    for path in TASK_PICTURES:
        with Image.open(path) as committed, Image.open(tmp_path / path.name) as made:
            assert made.size == committed.size == (960, 540)
            levels = [np.asarray(image.convert("RGB"), np.float32) for image in (made, committed)]
            assert np.abs(levels[0] - levels[1]).mean() < 4, path.name  # other fonts, and scores of changed pages


def test_every_page_is_on_the_site() -> None:
    listed = set()
    for page in PAGES[1:]:
        for toctree in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
            lines = [line for line in toctree.splitlines() if line and not line.startswith(":")]
            names = {re.sub(r".*<(.*)>", r"\1", line) for line in lines} - {"genindex"}  # made by Sphinx
            listed |= {(page.parent / f"{name}.md").resolve() for name in names}
    assert listed == set(PAGES[1:]) - {DOCS / "index.md"}


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
    script = (ROOT / ".ci" / "run").read_text()
    assert script.count('eval "$(readme_line ') == 2
    assert len(re.findall(r"^```sh\n.*\n```$", PAGES[0].read_text(), re.MULTILINE)) == 2


def documented(module: str) -> list[str]:
    """The names of a module that the reference has."""
    pages = "\n".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))
    return re.findall(rf"^\.\. auto(?:class|function):: {re.escape(module)}\.(\w+)$", pages, re.MULTILINE)


def test_the_reference_has_every_public_name_once() -> None:
    top = {name for name in winml_py.__all__ if not hasattr(winml_py.errors, name)}
    assert sorted([*documented("winml_py"), "__version__"]) == sorted(top)
    assert sorted(documented("winml_py.results")) == sorted(winml_py.results.__all__)
    assert "`winml_py.__version__`" in (DOCS / "api" / "index.md").read_text()
    assert sorted(documented("winml_py.float16")) == sorted(float16.__all__)
    assert documented("winml_py.testing") == ["FakeDevice"]


def rows(page: str) -> Iterator[list[str]]:
    """The cells of the page's tables, line by line."""
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_the_table_of_errors_is_right() -> None:
    table = {names_in(row[0])[0]: row for row in rows("api/errors.md") if names_in(row[0])}
    public = {name for name in vars(winml_py.errors) if name.endswith("Error")}
    assert set(table) == public
    for name, (_, hresult, builtins, *_) in table.items():
        kind = getattr(winml_py.errors, name)
        assert int(names_in(hresult)[0], 16) == kind.hresult
        ours = [parent for parent in kind.__mro__ if issubclass(parent, WinMLError)]
        bases = {base.__name__ for parent in ours for base in parent.__bases__ if base.__module__ == "builtins"}
        assert set(names_in(builtins)) | {"OSError"} == bases


def test_the_command_line_page_has_every_command_option_and_code() -> None:
    page = (DOCS / "command-line.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(main.commands)
    for name, command in main.commands.items():
        told = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", sections[name]))
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert set(parameter.opts) <= told, f"{name}: {parameter.opts}"
    codes = {row[0]: row[2] for row in rows("command-line.md") if row[0].isdecimal()}
    assert sorted(codes) == list("01234567")
    for code, errors in codes.items():
        for error in names_in(errors):
            assert status_of(getattr(winml_py.errors, error)("it failed")) == int(code)


DIGITS = "models/digits.onnx"
ZEROS = np.zeros((1, 1, 28, 28), np.float32)


def bind(value: Any, source: Any = DIGITS, name: str = "image", properties: Any = None) -> LearningModelBinding:
    binding = LearningModelBinding(open_session(source))
    binding.bind(name, value, properties)
    return binding


def newer() -> bytes:
    loaded = onnx.load(DIGITS)
    loaded.opset_import[0].version = 99
    return bytes(loaded.SerializeToString())


def gather() -> bytes:
    weights = {"w": np.zeros(2, np.float32)}
    return data([helper.make_node("Gather", ["w", "x"], ["y"])], [tensor("x", [1], 7)], [tensor("y", [1])], weights)


def library() -> bytes:
    odd = helper.make_node("Odd", ["x"], ["y"], domain="my.ops")
    return data([odd], [tensor("x", [2])], [tensor("y", [2])], domains={"my.ops": 1})


def external(location: str) -> str:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [tensor("x", [2])],
        [tensor("y", [2])],
        {"w": np.zeros(2, np.float32)},
    )
    weight = made.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    Path("external.onnx").write_bytes(made.SerializeToString())
    return "external.onnx"


def changed() -> None:
    loaded = LearningModel.load(shutil.copy(DIGITS, "changed.onnx"))
    with open("changed.onnx", "ab") as file:
        file.write(b" ")
    LearningModelSession(loaded)


def stopped(read: bool) -> None:
    count = 400  # products of matrices: seconds, and a boundary every few milliseconds
    nodes = [helper.make_node("MatMul", [f"v{i}", "v0"], [f"v{i + 1}"]) for i in range(count)]
    slow = open_session(data(nodes, [tensor("v0", [600, 600])], [tensor(f"v{count}", [600, 600])]))
    binding, output = LearningModelBinding(slow), TensorFloat.create()
    binding.bind("v0", np.zeros((600, 600), np.float32))
    binding.bind(f"v{count}", output)
    try:
        slow.evaluate(binding, timeout=0.3)
    except TimeoutError:
        if not read:
            raise
        output.to_numpy()


def wrong_output() -> None:
    binding = bind(np.zeros((3, 1, 28, 28), np.float32), "models/digits_batch.onnx")
    binding.bind("probabilities", np.zeros((2, 10), np.float32))
    binding._session.evaluate(binding)


def inherited() -> None:
    made = open_session(DIGITS)
    private_state(made).in_child()
    made.evaluate_features({})


def ended() -> None:
    with open_session(DIGITS, isolation="process") as made:
        engine: Any = private_state(made).engine
        os.kill(engine.process_number, signal.SIGSEGV)
        wait_until(lambda: engine.is_lost)  # one of its threads may answer before the signal ends it
        made.evaluate_features({"image": ZEROS})


def seven() -> ImageFeatureValue:
    return ImageFeatureValue.load("samples/pictures/seven.png")


MISTAKES: list[Callable[[], object]] = [
    lambda: LearningModel.load("missing.onnx"),
    lambda: LearningModel.load("samples/pictures/cat.jpg"),
    lambda: LearningModel.load(str(Path("odd.onnx").write_bytes(bytes(99)) and "odd.onnx")),
    lambda: LearningModel.load(str(Path("cut.onnx").write_bytes(Path(DIGITS).read_bytes()[:999]) and "cut.onnx")),
    lambda: open_session(external("missing.bin")),
    lambda: open_session(Path(external("missing.bin")).read_bytes()),
    lambda: open_session(external("../missing.bin")),
    changed,
    lambda: open_session(newer()),
    lambda: open_session(library()),
    lambda: LearningModelSession(LearningModel.load(DIGITS), LearningModelDeviceKind.CPU),  # type: ignore[arg-type]
    lambda: open_session(DIGITS, provider_options={"nonsense": 1}),
    lambda: LearningModelDevice(LearningModelDeviceKind.GPU),
    lambda: open_session(DIGITS, engine="openvino"),
    lambda: not_capturable("the provider reads every input on the device"),
    inherited,
    lambda: translate(RuntimeError("the device was lost")),
    ended,
    lambda: _clash(["onnxruntime", "onnxruntime-gpu"]),
    lambda: bind(ZEROS, name="picture"),
    lambda: bind("samples/pictures/seven.png"),
    lambda: bind(ZEROS[..., :27]),
    lambda: bind(np.zeros((28, 28, 3), np.uint8)),
    lambda: bind(seven(), properties={"BitmapBounds": [0, 0, 500, 500]}),
    lambda: bind(seven(), properties={"BitmapPixelFormat": BitmapPixelFormat.RGB8}),
    lambda: bind(TensorFloat.create()),
    lambda: open_session("models/digits_batch.onnx", batch_size_override=2).evaluate_features({"image": ZEROS}),
    wrong_output,
    lambda: stopped(read=False),
    lambda: stopped(read=True),
    lambda: list(open_session(unary("Softmax")).evaluate_many([np.ones(1, np.float32)] * 2, batch=2)),
    lambda: open_session(gather()).evaluate_features({"x": np.array([9])}),
    lambda: ImageFeatureValue.load(DIGITS),
    lambda: ImageFeatureValue.load(str(Path("odd.png").write_bytes(bytes(99)) and "odd.png")),
    lambda: ImageFeatureValue.load("samples/pictures/seven.png", max_pixels=9),
    lambda: VideoReader(DIGITS),
    lambda: VideoReader(io.BytesIO(b"RIFF\xff\xff\0\0AVI ")),
    lambda: SoftwareBitmap.from_pil(Image.new("F", (2, 2))),
    lambda: float16.convert("models/edges.onnx", "half.onnx", tolerance=1e-9),
    lambda: TensorFloat.from_dlpack("no array"),
]
"""One for each message on the page of troubles: what it says must be what the package says."""


def said(mistake: Callable[[], object]) -> str:
    """What the call raises, or gives."""
    try:
        return str(mistake())
    except WinMLError as error:
        return str(error)


def test_the_messages_on_the_page_of_troubles_are_given(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [row[0].strip("`") for row in rows("troubleshooting.md") if row[0].startswith("`")]
    given = [said(mistake) for mistake in MISTAKES]
    unmatched = set(given)
    for message in messages:
        pattern = re.compile(re.escape(message).replace("…", ".+"), re.DOTALL)
        found = set(filter(pattern.match, given))
        assert found, message
        unmatched -= found
    assert unmatched == set()


class Page(HTMLParser):
    """What a page of the site refers to, what it loads, and the anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                (self.links if tag == "a" else self.loaded).append(value)


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
    def test_it_has_every_public_name(self, site: Path) -> None:
        lines = (site / "objects.inv").read_bytes().split(b"\n", 4)
        names = {line.split()[0] for line in zlib.decompress(lines[4]).decode().splitlines()}
        for name in set(winml_py.__all__) - {"__version__"}:
            assert {f"winml_py.{name}", f"winml_py.errors.{name}"} & names, name
        assert {"winml_py.float16.convert", "winml_py.testing.FakeDevice"} <= names

    def test_its_links_lead_somewhere(self, site: Path) -> None:
        pages = {path: Page(path) for path in site.rglob("*.html")}
        for path, page in pages.items():
            for link in (*page.links, *page.loaded):
                if re.match(r"[a-z]+:", link):
                    continue
                target, _, anchor = link.partition("#")
                place = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
                assert place.is_file(), f"{path.name}: {link}"
                if place in pages:
                    assert unquote(anchor) in pages[place].anchors, f"{path.name}: {link}"

    def test_it_asks_the_network_for_nothing(self, site: Path) -> None:
        for path in site.rglob("*.html"):
            assert [link for link in Page(path).loaded if re.match(r"[a-z]+:|//", link)] == [], path
        for path in site.rglob("*.css"):
            assert re.findall(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)]*""", path.read_text()) == [], path
