"""What `docs/stability.md` promises of public names: none goes before its table has named it as deprecated.

`tests/project/public_names.txt` has the names of the latest release. To deprecate a name, give it a row in the table of
`docs/stability.md` and a line in `CHANGELOG.md`, and have it warn: `typing_extensions.deprecated` for classes and
functions, `warn_caller(DeprecationWarning(...))` for parameters, click's own `deprecated="..."` for options.
"""

from __future__ import annotations

import re

import pytest

from helpers.paths import ROOT
from tools.public_names import FILE, Names, deprecated_names, present_names


def gone_too_early(released: Names, now: Names, deprecated: set[str]) -> list[str]:
    """The names that the release had, and that have gone without a row of the table."""
    gone = released.names - now.names
    if now.schema != released.schema:
        gone = {name for name in gone if not name.startswith("json ")}
    owners = {name: [name, *(name[: mark.start()] for mark in re.finditer(r"[.( ]", name))] for name in gone}
    return sorted(name for name in gone if not deprecated & set(owners[name]))


def test_no_name_of_the_release_is_gone_without_a_warning() -> None:
    deprecated = deprecated_names((ROOT / "docs" / "stability.md").read_text())
    assert gone_too_early(Names.parsed(FILE.read_text()), present_names(), deprecated) == []


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


def names(*lines: str, schema: int = 1) -> Names:
    return Names("0.1.0", schema, frozenset(lines))


@pytest.mark.parametrize(
    ("released", "now", "gone"),
    [
        (names("winml_py.kept", "winml_py.gone"), names("winml_py.kept", "winml_py.new"), ["winml_py.gone"]),
        (names("winml_py.old", "winml_py.old.part(x)"), names(), []),
        (names("winml-py run --old"), names("winml-py run"), ["winml-py run --old"]),
        (names("json run.old"), names(), ["json run.old"]),
        (names("json run.old"), names(schema=2), []),
    ],
)
def test_a_name_that_goes_too_early_is_found(released: Names, now: Names, gone: list[str]) -> None:
    assert gone_too_early(released, now, {"winml_py.old"}) == gone


def test_the_table_is_read() -> None:
    head = "### Deprecated names\n\n| name | deprecated in | removed not before | use |\n| --- | --- | --- | --- |\n"
    row = "| `winml_py.old(x)` | 0.2 | 0.3 | `winml_py.new` |\n\n## Behaviour\n\n| a | b | c | d |\n"
    assert deprecated_names(head + row) == {"winml_py.old(x)"}
