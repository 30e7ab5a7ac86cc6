"""The public names of the package, and those of the latest release: tests/project/public_names.txt.

    python tests/tools/public_names.py            # prints the names that the code has
    python tests/tools/public_names.py --write    # writes them to the file, when a release is made
    python tests/tools/public_names.py --check    # is the file of this version, and complete?

A name is one line: a module, class, function, member or parameter (`winml_py.LearningModel.load(source)`), a command
or an option (`winml-py run --top-k`), or a key of what a command prints as JSON (`json run.results[].outputs`).
`tests/project/test_deprecation.py` compares the file with the code.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "project" / "public_names.txt"
NAMESPACES = (
    "microsoft.ai.machinelearning",
    "microsoft.ai.machinelearning.experimental",
    "runtime",
    "system",
    "windows.ai.machinelearning",
    "windows.foundation",
    "windows.foundation.collections",
    "windows.graphics",
    "windows.graphics.imaging",
    "windows.media",
    "windows.security.cryptography",
    "windows.storage",
    "windows.storage.streams",
)
"""The modules under `winml_py.winrt` that WinRT has, too; the others are how they are made."""

PACKAGE = "winml_py"


class Names(NamedTuple):
    """The public names of one version, and the number of its JSON schema."""

    version: str
    schema: int
    names: frozenset[str]

    def written(self) -> str:
        return "\n".join([f"winml-py {self.version}, JSON schema {self.schema}", *sorted(self.names), ""])

    @classmethod
    def parsed(cls, text: str) -> Names:
        first, *lines = text.splitlines()
        version, schema = re.fullmatch(r"winml-py (\S+), JSON schema (\d+)", first).groups()
        return cls(version, int(schema), frozenset(lines))


def present_names() -> Names:
    """The names that the code has."""
    import winml_py
    from winml_py.cli.main import main
    from winml_py.core.base.messages import REPORT_SCHEMA

    seen: set[type] = set()
    names = [*_names_of_python(seen), *_names_of_winrt(seen), *names_of_command("winml-py", main), *_names_of_json()]
    return Names(winml_py.__version__, REPORT_SCHEMA, frozenset(names))


def deprecated_names(page: str) -> set[str]:
    """The first column of the table under "Deprecated names" of docs/stability.md."""
    section = re.search(r"^### Deprecated names\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)[1]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def _names_of_python(seen: set[type]) -> Iterator[str]:
    """Of `winml_py` and its modules: what is in `__all__`, and what the reference lists."""
    import winml_py

    listed: set[str] = set(re.findall(r"\.\. auto\w+:: (winml_py\.\w+\.\w+)$", _reference(), re.MULTILINE))
    for name in sorted(set(winml_py.__all__) - {"__version__"}):
        yield from names_of(f"winml_py.{name}", getattr(winml_py, name), seen)
    for name in sorted(winml_py._MODULES):
        module = importlib.import_module(f"winml_py.{name}")
        yield module.__name__
        own = {name.rpartition(".")[2] for name in listed if name.startswith(f"{module.__name__}.")}
        classes = {each for each, value in vars(module).items() if inspect.isclass(value)}
        for name in sorted(own | set(getattr(module, "__all__", classes))):
            yield from names_of(f"{module.__name__}.{name}", getattr(module, name), seen)


def _reference() -> str:
    return "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "api").glob("*.md")))


def _names_of_winrt(seen: set[type]) -> Iterator[str]:
    """Of the modules that programs for pywinrt import."""
    for namespace in NAMESPACES:
        module = importlib.import_module(f"winml_py.winrt.{namespace}")
        yield module.__name__
        names = getattr(module, "__all__", None) or set(vars(module)) - _imported_for_use(module)
        values = {name: vars(module)[name] for name in sorted(names) if not name.startswith("_")}
        # Aliases last: members are listed under the class's own name.
        for name in sorted(values, key=lambda name: getattr(values[name], "__name__", name) != name):
            if not isinstance(values[name], ModuleType):
                yield from names_of(f"{module.__name__}.{name}", values[name], seen)


def _imported_for_use(module: ModuleType) -> set[str]:
    """The names that a module imports without handing them on: `import X as X` does, as in stubs."""
    statements = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    aliases = [each for line in statements if isinstance(line, (ast.Import, ast.ImportFrom)) for each in line.names]
    return {each.asname or each.name for each in aliases if each.asname is None or each.asname != each.name}


def names_of(name: str, value: Any, seen: set[type]) -> Iterator[str]:
    """A class with its members and the parameters of all, a function with its parameters, or a name alone.

    Args:
        name: the whole name.
        value: what it is.
        seen: the classes that were listed under another name; their members are not listed again.
    """
    yield name
    if not inspect.isclass(value):
        yield from _parameters(name, value)
    elif value not in seen and value.__module__.startswith(PACKAGE):
        seen.add(value)
        constructor = _described(value, "Args") | _described(value, "Attributes")
        yield from (each for each in _parameters(name, value) if each[len(name) + 1 : -1] in constructor)
        for member, what in sorted(_members(value).items()):
            yield f"{name}.{member}"
            yield from _parameters(f"{name}.{member}", what)


def _members(kind: type) -> dict[str, Any]:
    """What a class and those of ours that it inherits from define, or describe as attributes."""
    found: dict[str, Any] = {}
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith(PACKAGE)]):
        found |= dict.fromkeys(_described(base, "Attributes") | set(getattr(base, "__dataclass_fields__", ())))
        found |= base.__dict__
    found |= getattr(kind, "__members__", {})
    return {name: what for name, what in found.items() if not name.startswith("_")}


def _described(kind: type, section: str) -> set[str]:
    """The names in a section of a class's docstring."""
    words = kind.__doc__ if isinstance(kind.__doc__, str) else ""
    found = re.search(rf"^ *{section}:\n(.*?)(?:\n\n|\Z)", words, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"^ +(\w+): ", found[1], re.MULTILINE)) if found else set()


def _parameters(name: str, value: Any) -> list[str]:
    """The parameters that a program may name, of functions of ours."""
    function = getattr(value, "__func__", value)  # of a class or static method
    if not callable(function) or not str(function.__module__).startswith(PACKAGE):
        return []
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:  # a class that cannot be called
        return []
    named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return [f"{name}({each.name})" for each in found if each.kind in named and each.name not in ("self", "cls")]


def names_of_command(name: str, command: click.Command) -> Iterator[str]:
    """A command, its options, and the commands below it."""
    yield name
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield from (f"{name} {option}" for option in (*parameter.opts, *parameter.secondary_opts))
    for each, below in getattr(command, "commands", {}).items():
        yield from names_of_command(f"{name} {each}", below)


def _names_of_json() -> Iterator[str]:
    schema = json.loads((ROOT / "docs" / "_static" / "winml-py.schema.json").read_text())
    for name, part in schema["$defs"].items():
        if name.startswith("kind_"):
            yield from _keys(f"json {name.removeprefix('kind_')}", part, schema["$defs"], ())


def _keys(path: str, part: Any, parts: dict[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    """The keys below a path: `.key` of an object, `[]` in a list, `{}` under names that a model or user chooses."""
    if not isinstance(part, dict):
        return
    reference = part.get("$ref", "").removeprefix("#/$defs/")
    if reference and reference not in above:
        yield from _keys(path, parts[reference], parts, (*above, reference))
    for key, below in part.get("properties", {}).items():
        yield f"{path}.{key}"
        yield from _keys(f"{path}.{key}", below, parts, above)
    yield from _keys(f"{path}[]", part.get("items"), parts, above)
    yield from _keys(f"{path}{{}}", part.get("additionalProperties"), parts, above)
    for each in (*part.get("oneOf", ()), *part.get("anyOf", ()), *part.get("allOf", ())):
        yield from _keys(path, each, parts, above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    wanted = parser.parse_args()
    text = present_names().written()
    if wanted.write:
        FILE.write_text(text)
    elif wanted.check:
        if FILE.read_text() != text:
            raise SystemExit(f"{FILE.relative_to(ROOT)} is not what the code has: write it with --write")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
