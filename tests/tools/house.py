"""The size and the shape of the package in figures, and the ceilings that CI holds.

    python tests/tools/house.py [--check] [--json FILE]

The ceilings of size are round numbers above the figures, so that a fix and its test need no new one. FILE also has the
names behind the figures. What is read from the files alone needs nothing but Python. The options of the commands and
the way of a value need the package's requirements; without them these figures are left out, and the program says so.

Lines of code are those that are not blank, not a comment and not a docstring. "Inner names" are what capabilities
import from the core beside its public names and those of `results`, `core.base`, errors and enumerations. A circle is
a set of modules that reach each other by imports, those inside functions and those by a module's name included. "The
way" is recorded while a program runs: the files of the package whose functions are called.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "winml_py"

CEILINGS = {
    "lines of code": 25_800,
    "lines of code in core/": 14_000,
    "lines of docstrings": 7_700,
    "files": 260,
    "names in __all__": 69,
    "options of commands": 95,
    "words of docs": 40_000,
    "lines of code of tests": 37_000,
    "binding classes of engines": 3,
    "files from bind of a JPEG to the engine": 14,
    "files of evaluate_features": 8,
    "modules in a circle": 0,
    "inner names that capabilities use": 90,
}
"""`--check` fails above these. A change that needs more raises its line, and says what it needs it for."""


class Source(NamedTuple):
    """A file.

    Attributes:
        name: the module's.
        path: the file's.
        tree: its syntax tree.
        code: the numbers of its lines of code.
        docstrings: how many lines its docstrings have.
    """

    name: str
    path: Path
    tree: ast.Module
    code: set[int]
    docstrings: int


def read(path: Path, root: Path = ROOT) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    words: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            words |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(text.split("\n"), 1)
    code = {number for number, line in lines if line.strip() and not line.strip().startswith("#")} - words
    parts = path.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Source(name, path, tree, code, len(words))


def imported(source: Source, modules: set[str]) -> Iterator[tuple[str, str]]:
    """The modules of the package that a file imports, each with the name that it takes from it; "" for the module."""
    package = source.name.split(".") if source.path.stem == "__init__" else source.name.split(".")[:-1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            for alias in node.names:
                if f"{module}.{alias.name}" in modules:
                    yield f"{module}.{alias.name}", ""
                elif module in modules:
                    yield module, alias.name
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            named = "".join(  # "winml_py.core.contracts.{name}" may be any module of that room
                str(part.value) if isinstance(part, ast.Constant) else r"\w+"
                for argument in node.args[:1]
                for part in (argument.values if isinstance(argument, ast.JoinedStr) else [argument])
                if isinstance(part, (ast.Constant, ast.FormattedValue))
            )
            yield from ((each, "") for each in modules if named and re.fullmatch(named, each))


def circles(graph: dict[str, set[str]]) -> list[str]:
    """The modules from which imports lead back to themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [*graph[start]]
        while waiting:
            module = waiting.pop()
            if module not in seen:
                seen.add(module)
                waiting += graph.get(module, ())
        return seen

    return sorted(module for module in list(graph) if module in reached(module))


def inner_names(sources: list[Source], modules: set[str], public: set[str]) -> set[str]:
    """What capabilities take from the core beside its public names; names of modules are followed to what is used."""
    found = set()
    for source in sources:
        if source.name == "winml_py" or source.name.startswith(("winml_py.core", "winml_py.errors", "winml_py.enums")):
            continue
        for module, name in imported(source, modules):
            if not module.startswith("winml_py.core.") or module.startswith("winml_py.core.base"):
                continue
            if name:
                found.add(f"{module}.{name}")
            else:
                stem = module.rpartition(".")[2]
                used = re.findall(rf"\b{stem}\.(\w+)", source.path.read_text(encoding="utf-8"))
                found |= {f"{module}.{each}" for each in used}
    return {each for each in found if each.rpartition(".")[2] not in public}


def runs_for_an_engine(node: ast.ClassDef) -> bool:
    """Whether a class runs a `Bound`, and is no engine: what an engine keeps in `Bound.natives`, say."""
    methods = {each.name: each.args.args for each in node.body if isinstance(each, ast.FunctionDef)}
    bound = [ast.unparse(each.annotation) for each in methods.get("run", [])[1:2] if each.annotation is not None]
    return bound == ["Bound"] and "explanation" not in methods and "placement" not in methods


WAY = """
import pathlib, sys, tempfile
import numpy as np
from PIL import Image
from winml_py import ImageFeatureValue, LearningModel, LearningModelBinding, LearningModelSession
session = LearningModelSession(LearningModel.load("models/digits.onnx"))
fresh = LearningModelSession(session.model)
binding = LearningModelBinding(session)
picture = pathlib.Path(tempfile.mkdtemp()) / "picture.jpg"
Image.new("RGB", (40, 30)).save(picture)
engine = session._private_state.engine
run = engine.run
def run_last(*arguments):  # the way ends here
    outputs = run(*arguments)
    sys.setprofile(None)
    return outputs
engine.run = run_last
def evaluate_jpeg():
    binding.bind("image", ImageFeatureValue.load(picture))
    session.evaluate(binding)
    del engine.run
def evaluate_features():
    for _ in range(2):  # the first evaluation may be another than the later ones
        fresh.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
for program in (evaluate_jpeg, evaluate_features):
    files = set()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
    program()
    sys.setprofile(None)
    print(program.__name__, *sorted(each for each in files if "winml_py/" in each))
"""
OPTIONS = """
from winml_py.cli.main import main
print(sum(each.param_type_name == "option" for command in main.commands.values() for each in command.params))
"""


def run(code: str) -> list[str] | None:
    """The lines that a program prints; None where the package's requirements are not installed."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if done.returncode and "ModuleNotFoundError" not in done.stderr:
        sys.exit(done.stderr)
    return None if done.returncode else done.stdout.splitlines()


def figures() -> dict[str, Any]:
    sources = [read(path) for path in sorted(PACKAGE.rglob("*.py"))]
    modules = {source.name for source in sources}
    graph: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        graph[source.name] = {module for module, _ in imported(source, modules)}
    stub = (PACKAGE / "__init__.pyi").read_text(encoding="utf-8")
    public = set(re.findall(r'"(\w+)"', stub))
    code = sum(len(source.code) for source in sources)
    bindings = [
        f"{source.name}.{node.name}"
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and runs_for_an_engine(node)
    ]
    in_circles = circles(graph)
    returned = re.findall(r'"(\w+)"', (PACKAGE / "results.py").read_text(encoding="utf-8"))
    inner = sorted(inner_names(sources, modules, public | set(returned)))
    tests = [read(path) for path in sorted((ROOT / "tests").rglob("*.py"))]
    found: dict[str, Any] = {
        "lines of code": code,
        "lines of code in core/": sum(len(each.code) for each in sources if each.name.startswith("winml_py.core")),
        "lines of docstrings": sum(source.docstrings for source in sources),
        "files": len(sources),
        "names in __all__": len(public),
        "words of docs": sum(len(each.read_text(encoding="utf-8").split()) for each in (ROOT / "docs").rglob("*.md")),
        "lines of code of tests": sum(len(each.code) for each in tests),
        "binding classes of engines": len(bindings),
        "modules in a circle": len(in_circles),
        "inner names that capabilities use": len(inner),
        "names": {"bindings": bindings, "circle": in_circles, "inner names": inner},
    }
    way, options = run(WAY), run(OPTIONS)
    if way is None or options is None:
        print("Left out: the ways and the options, which need `pip install .`", file=sys.stderr)
        return found
    found["options of commands"] = int(options[0])
    for line, name in zip(way, ("files from bind of a JPEG to the engine", "files of evaluate_features"), strict=True):
        found["names"][name] = [path.partition("winml_py/")[2] for path in line.split()[1:]]
        found[name] = len(found["names"][name])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure is above its ceiling")
    parser.add_argument("--json", type=Path, help="write the figures, and the names behind them, to a file")
    options = parser.parse_args()
    found = figures()
    for name, value in found.items():
        if name != "names":
            ceiling = f"at most {CEILINGS[name]:,}" if name in CEILINGS else ""
            print(f"{name:45} {value:>8,}  {ceiling}".rstrip())
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    above = [name for name, ceiling in CEILINGS.items() if found.get(name, 0) > ceiling]
    if options.check and above:
        sys.exit(f"Above the ceiling: {', '.join(above)}. Take something away, or raise the ceiling and say what for.")


if __name__ == "__main__":
    main()
