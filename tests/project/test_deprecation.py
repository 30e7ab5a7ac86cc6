"""What `docs/stability.md` promises of public names: none goes without a warning that a release has given before.

`tests/project/public_names.txt` has the names of the latest release, and the table of `docs/stability.md` those that
are deprecated. To deprecate a name, give it a row there and a line in `CHANGELOG.md`, and let it say what the row says:

* a class, a function, a method or the getter of a property by `typing_extensions.deprecated`;
* a parameter by `warn_caller(DeprecationWarning(...))`, before anything else is looked at;
* any other name of a module in the module's `__getattr__`, by `warn_caller`, too;
* a command or an option by click's own `deprecated="..."`.
"""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import suppress
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import click
import pytest

from helpers.paths import ROOT
from tools.public_names import FILE, Deprecation, Names, deprecations, names_of, names_of_command, present_names
from winml_py.cli.main import main
from winml_py.core.base.messages import warn_caller

PAGE = (ROOT / "docs" / "stability.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def parts(version: str) -> tuple[int, int]:
    """The major and the minor number."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def first_without(since: str) -> tuple[int, int]:
    """The first version that may be without a name that warns since a version: before 1.0 the next minor one."""
    major, minor = parts(since)
    return (0, minor + 1) if major == 0 else (major + 1, 0)


def section(changelog: str, version: str) -> str:
    """What the changelog says of a version."""
    found = re.search(rf"^## {re.escape(version)}\b.*?(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE)
    return found[0] if found else ""


def owners(name: str) -> list[str]:
    """A name, and what it belongs to: `winml_py.A.b(c)`, `winml_py.A.b`, `winml_py.A`, `winml_py`."""
    return [name, *(name[: mark.start()] for mark in re.finditer(r"[.( ]", name))]


def broken_promises(released: Names, now: Names, changelog: str) -> list[str]:
    """What the release had, and is gone too early, or without a word."""
    problems = []
    for name in sorted(released.names - now.names):
        if name.startswith("json "):
            if now.schema == released.schema:
                problems.append(f"{name} is gone, and `schema` is still {now.schema}")
            continue
        warned = [owner for owner in owners(name) if owner in released.deprecated]
        if not warned:
            problems.append(f"{name} is gone, and {released.version} did not warn of it")
        elif parts(now.version) < parts(released.deprecated[warned[0]]):
            problems.append(f"{name} is gone before {released.deprecated[warned[0]]}")
        elif not any(f"`{owner}`" in section(changelog, now.version) for owner in owners(name)):
            problems.append(f"{name} is gone, and the changelog does not say so")
    return problems


def mistakes(rows: list[Deprecation], released: Names, now: Names, changelog: str) -> list[str]:
    """What is wrong with the table of deprecated names."""
    problems = []
    for row in rows:
        version = ".".join(map(str, parts(now.version)))
        if row.name not in now.names:
            problems.append(f"{row.name} is not there any more")
        if row.name not in released.deprecated and row.since != version:
            problems.append(f"{row.name} warns from {version} on, and not {row.since}")
        if parts(row.removal) < first_without(row.since):
            problems.append(f"{row.name} may not go in {row.removal}")
        if not any(f"`{row.name}`" in text for text in re.findall(r"^## .*?(?=^## |\Z)", changelog, re.S | re.M)):
            problems.append(f"the changelog does not name {row.name}")
        if not any(row.since in text and row.instead in text for text in told_by(row.name)):
            problems.append(
                f"{row.name} does not say that it is deprecated since {row.since}, and to use {row.instead}"
            )
    return problems


def told_by(name: str, program: click.Command = main) -> list[str]:
    """What a program or a user is told who uses the name."""
    if name.startswith("winml-py "):
        _, *commands = name.split()
        found: Any = program
        for word in commands:
            isolated = [each for each in found.params if word in each.opts]
            found = isolated[0] if isolated else found.commands[word]
        return [str(found.deprecated)]
    path, _, parameter = name.removesuffix(")").partition("(")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = resolve_name(path)
        if parameter:
            with suppress(Exception):  # it warns before it looks at what it got
                value(**{parameter: None})
    value = getattr(value, "fget", value)
    stated = [value.__deprecated__] if hasattr(value, "__deprecated__") else []
    return [*stated, *(str(each.message) for each in caught if each.category is DeprecationWarning)]


def test_no_name_of_the_release_is_gone_without_a_warning() -> None:
    assert broken_promises(Names.parsed(FILE.read_text()), present_names(), CHANGELOG) == []


def test_the_deprecated_names_are_right() -> None:
    rows = deprecations(PAGE)
    assert mistakes(rows, Names.parsed(FILE.read_text()), present_names(), CHANGELOG) == []
    assert ("No name is deprecated." in PAGE) == (not rows)


def test_the_list_names_what_programs_use() -> None:
    released = Names.parsed(FILE.read_text())
    assert {
        "winml_py.LearningModel.load(source)",
        "winml_py.TensorKind.FLOAT16",
        "winml_py.ImageContract(mean)",
        "winml_py.WinMLError.hint",
        "winml_py.vision.Detections.boxes",
        "winml_py.winrt.windows.storage.StorageFile.get_file_from_path_async",
        "winml-py run --top-k",
        "json run.results[].outputs",
    } <= released.names
    assert not {name for name in released.names if re.search(r"[.( ]_", name)}
    assert Names.parsed(released.written()) == released


# The same rules on versions that are stand-ins: each of them finds what it is there for.


def names(version: str, *lines: str, schema: int = 2) -> Names:
    return Names.parsed("\n".join([f"winml-py {version}, JSON schema {schema}", *lines]))


WARNED = "winml_py.old (removed not before 0.3)"
TOLD = "## 0.3.0\n\n* `winml_py.old` is gone: use `winml_py.new`.\n\n## 0.2.0\n"


@pytest.mark.parametrize(
    ("released", "now", "changelog", "problem"),
    [
        (names("0.1.0", "winml_py.old"), names("0.2.0"), TOLD, "and 0.1.0 did not warn of it"),
        (names("0.2.0", WARNED), names("0.2.1"), TOLD, "gone before 0.3"),
        (names("0.2.0", WARNED), names("0.3.0"), TOLD.replace("## 0.3.0", "## 0.4.0"), "changelog does not say so"),
        (names("0.2.0", WARNED), names("0.3.0"), TOLD, None),
        (names("0.2.0", WARNED, "winml_py.old.part(x)"), names("0.3.0"), TOLD, None),
        (names("0.2.0", WARNED, "winml_py.older"), names("0.3.0"), TOLD, "winml_py.older is gone, and 0.2.0 did not"),
        (names("0.2.0", "winml_py.f", "winml_py.f(x)"), names("0.3.0", "winml_py.f"), TOLD, "winml_py.f(x) is gone"),
        (names("0.2.0", "winml-py run --old"), names("0.3.0", "winml-py run"), TOLD, "winml-py run --old is gone"),
        (names("0.2.0", "json run.old"), names("0.3.0"), TOLD, "json run.old is gone, and `schema` is still 2"),
        (names("0.2.0", "json run.old"), names("0.3.0", schema=3), TOLD, None),
        (names("0.2.0"), names("0.2.1", "winml_py.new"), TOLD, None),
    ],
)
def test_a_name_that_goes_too_early_is_found(released: Names, now: Names, changelog: str, problem: str | None) -> None:
    problems = broken_promises(released, now, changelog)
    assert len(problems) == (problem is not None)
    assert problem is None or problem in problems[0]


@pytest.mark.parametrize(
    ("since", "first"), [("0.1", (0, 2)), ("0.9", (0, 10)), ("1.0", (2, 0)), ("1.4", (2, 0)), ("2.1", (3, 0))]
)
def test_a_name_stays_for_a_minor_version_or_until_the_next_major_one(since: str, first: tuple[int, int]) -> None:
    assert first_without(since) == first


@pytest.fixture
def old_names(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with deprecated names of every kind: its name."""
    from typing_extensions import deprecated  # onnx brings it

    words = "deprecated since winml-py 0.2: use winml_py.new"

    @deprecated(words)
    def function(x: object) -> None: ...

    class Kept:
        @deprecated(words)
        def method(self) -> None: ...

        @property
        @deprecated(words)
        def value(self) -> None: ...

    def changed(*, old: object = 0) -> None:
        if old != 0:
            warn_caller(DeprecationWarning(words))
        raise ValueError(old)

    def from_module(name: str) -> object:
        if name != "constant":
            raise AttributeError(name)
        warn_caller(DeprecationWarning(words))
        return 1

    module = ModuleType("winml_py_of_before")
    contents = {
        "function": function,
        "Kept": Kept,
        "Gone": deprecated(words)(type("Gone", (), {})),
        "changed": changed,
        "silent": lambda x: None,
        "__getattr__": from_module,
    }
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


KINDS = ("function", "Kept.method", "Kept.value", "Gone", "changed(old)", "constant")


@pytest.mark.parametrize("kind", KINDS)
def test_a_deprecated_name_says_since_when_and_what_to_use(old_names: str, kind: str) -> None:
    row = Deprecation(f"{old_names}.{kind}", "0.2", "0.3", "winml_py.new")
    released, now = names("0.1.0", row.name), names("0.2.0", row.name)
    changelog = f"## 0.2.0\n\n* Deprecated: `{row.name}`.\n"
    assert mistakes([row], released, now, changelog) == []
    for wrong, problem in [
        (row._replace(since="0.1"), "warns from 0.2 on, and not 0.1"),
        (row._replace(removal="0.2"), "may not go in 0.2"),
        (row._replace(instead="winml_py.other"), "and to use winml_py.other"),
    ]:
        assert problem in " ".join(mistakes([wrong], released, now, changelog))
    assert "the changelog does not name" in mistakes([row], released, now, "## 0.2.0\n")[0]
    assert "is not there any more" in mistakes([row], released, names("0.2.0"), changelog)[0]


@pytest.mark.parametrize("kind", ["silent", "silent(x)", "changed", "Kept"])
def test_a_name_that_does_not_warn_is_found(old_names: str, kind: str) -> None:
    row = Deprecation(f"{old_names}.{kind}", "0.2", "0.3", "winml_py.new")
    problems = mistakes([row], names("0.1.0", row.name), names("0.2.0", row.name), f"## 0.2.0\n`{row.name}`")
    assert problems == [f"{row.name} does not say that it is deprecated since 0.2, and to use winml_py.new"]


def test_what_click_says_of_an_old_option_is_read() -> None:
    words = "since winml-py 0.2; use --new"
    run = click.Command("run", params=[click.Option(["--old"], deprecated=words), click.Option(["--new"])])
    before = click.Command("before", deprecated="since winml-py 0.2; use run")
    program = click.Group("winml-py", commands=[run, before])
    assert told_by("winml-py run --old", program) == [words]
    assert told_by("winml-py run --new", program) == ["False"]
    assert "use run" in told_by("winml-py before", program)[0]
    assert "winml-py run --old" in set(names_of_command("winml-py", program))


def test_the_table_is_read() -> None:
    head = "### Deprecated names\n\n| name | deprecated in | removed not before | use |\n| --- | --- | --- | --- |\n"
    row = "| `winml_py.old(x)` | 0.2 | 0.3 | `winml_py.new` |\n\n## Behaviour\n\n| a | b | c | d |\n"
    assert deprecations(head + row) == [Deprecation("winml_py.old(x)", "0.2", "0.3", "winml_py.new")]


def test_members_and_parameters_are_names() -> None:
    class Thing:
        """One.

        Args:
            size: a number.

        Attributes:
            told: a text.
        """

        def __init__(self, size: int, hidden: int = 0) -> None: ...

        def do(self, *things: int, fast: bool) -> None: ...

        @classmethod
        def make(cls, path: str, /) -> None: ...

    Thing.__module__ = Thing.do.__module__ = "winml_py.stand_in"
    found = set(names_of("T", Thing, set()))
    assert found == {"T", "T(size)", "T.told", "T.do", "T.do(fast)", "T.make"}
