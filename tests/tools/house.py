"""The size and the shape of the package in figures, and the ceilings that CI holds.

    python tests/tools/house.py [--check] [--json FILE]

FILE also has the names behind the figures. Without the package's requirements, the options and the ways are left out.

Lines of code are those that are not blank, not a comment and not a docstring. "Inner names" are what capabilities
import from the core beside its public names and those of `results`, `scaling`, `core.base`, errors and enumerations.
Of modules that import each other, also inside functions and by name, the first circle that is found is counted. "The
way" is the files of the package whose functions are called while a program runs. A test file imports winml_py.core if
it names one of its modules, also in a program that it writes or in the name of what it replaces. Programs in
tests/tools are not counted as tests.
"""

from __future__ import annotations

import argparse
import ast
import graphlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "winml_py"

CEILINGS = {
    # What was measured, rounded up.
    "lines of code": 25_830,
    "lines of code in core/": 14_240,
    "lines of docstrings": 7_860,
    "files": 214,
    "options of commands": 93,
    "words of docs": 46_400,
    "lines of code of tests": 36_560,  # thirty wrong results were mended, each with a test
    "inner names that capabilities use": 90,
    # What was measured.
    "names in __all__": 67,
    "binding classes of engines": 3,
    "files from bind of a JPEG to the engine": 12,
    "files of evaluate_features": 7,
    "modules in a circle": 0,
    "test files that import winml_py.core": 35,
}
"""`--check` fails above these. A change that needs more raises its line, and says what it needs it for."""


class Source(NamedTuple):
    name: str
    path: Path
    text: str
    tree: ast.Module
    code: int
    docstrings: int


def read_source(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = {number for number, line in enumerate(text.split("\n"), 1) if re.match(r"\s*[^\s#]", line)}
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return Source(name, path, text, tree, len(lines - docstrings), len(docstrings))


def list_imports(source: Source, modules: set[str]) -> Iterator[tuple[str, str]]:
    """The modules of the package that a file imports, each with the name that it takes from it; "" for the module."""
    package = source.name.split(".") if source.path.stem == "__init__" else source.name.split(".")[:-1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, node.module] if node.module else base)
            for alias in node.names:
                if f"{module}.{alias.name}" in modules:
                    yield f"{module}.{alias.name}", ""
                elif module in modules:
                    yield module, alias.name
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            # f"winml_py.core.contracts.{name}" may be any module of that room; f".{name}" is on first use
            argument = ast.unparse(node.args[0]).removeprefix("f").strip("'\"")
            pattern = re.sub(r"\{.*?\}", r"\\w+", "" if argument.startswith(".") else argument)
            yield from ((module, "") for module in modules if re.fullmatch(pattern, module))


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules from which imports lead back to themselves; none if there are none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return sorted(set(error.args[1]))
    return []


def list_inner_names(sources: list[Source], modules: set[str], public: set[str]) -> list[str]:
    """What capabilities take from the core beside its public names; names of modules are followed to what is used."""
    names: set[str] = set()
    for source in sources:
        if re.match(r"winml_py($|\.core|\.errors|\.enums)", source.name):
            continue
        for module, name in list_imports(source, modules):
            if re.match(r"winml_py\.core\.(?!base)", module):
                used = [name] if name else re.findall(rf"\b{module.rpartition('.')[2]}\.(\w+)", source.text)
                names |= {f"{module}.{inner_name}" for inner_name in used if inner_name not in public}
    return sorted(names)


def is_binding_class(node: ast.ClassDef) -> bool:
    """Whether a class runs a `Bound`, and is no engine: what an engine keeps in `Bound.natives`, say."""
    methods = {method.name: method.args.args for method in node.body if isinstance(method, ast.FunctionDef)}
    first = [ast.unparse(argument.annotation) for argument in methods.get("run", [])[1:2] if argument.annotation]
    return first == ["Bound"] and not {"explanation", "list_assigned_nodes"} & set(methods)


WAY = """
import sys
import numpy as np
from winml_py import ImageFeatureValue, LearningModel, LearningModelBinding, LearningModelSession
session = LearningModelSession(LearningModel.load("models/digits.onnx"))
fresh = LearningModelSession(session.model)
binding = LearningModelBinding(session)
engine = session._private_state.engine
run = engine.run
def run_last(*arguments):  # the way ends here
    outputs = run(*arguments)
    sys.setprofile(None)
    return outputs
engine.run = run_last
def evaluate_jpeg():
    binding.bind("image", ImageFeatureValue.load("samples/pictures/cat.jpg"))
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
    print(*sorted(file.partition("winml_py/")[2] for file in files if "winml_py/" in file))
from winml_py.cli.main import main
print(sum(parameter.param_type_name == "option" for command in main.commands.values() for parameter in command.params))
"""


def measure_running() -> tuple[int, dict[str, list[str]]]:
    """The number of options of the commands, and the files on each way; exits where the programs fail."""
    done = subprocess.run([sys.executable, "-c", WAY], cwd=ROOT, capture_output=True, text=True)
    if "ModuleNotFoundError" in done.stderr:
        print("Left out: the ways and the options, which need `pip install .`", file=sys.stderr)
        return 0, {}
    if done.returncode:
        sys.exit(done.stderr)
    jpeg, features, options = done.stdout.splitlines()
    ways = {"files from bind of a JPEG to the engine": jpeg.split(), "files of evaluate_features": features.split()}
    return int(options), ways


def measure() -> dict[str, Any]:
    """Every figure by its name, and under "names" what stands behind those that count names."""
    sources = [read_source(path) for path in sorted(PACKAGE.rglob("*.py"))]
    modules = {source.name for source in sources}
    texts = [(PACKAGE / name).read_text(encoding="utf-8") for name in ("__init__.pyi", "results.py", "scaling.py")]
    public = {name for text in texts for name in re.findall(r'"(\w+)"', text)}
    classes = [node for source in sources for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
    imports = {source.name: {module for module, _ in list_imports(source, modules)} for source in sources}
    options, ways = measure_running()
    pages, tests = (ROOT / "docs").rglob("*.md"), [read_source(path) for path in (ROOT / "tests").rglob("*.py")]
    tests = [test for test in tests if not test.name.startswith("tests.tools")]
    names = {
        "binding classes of engines": [node.name for node in classes if is_binding_class(node)],
        "modules in a circle": find_circle(imports),
        "inner names that capabilities use": list_inner_names(sources, modules, public),
        "test files that import winml_py.core": [test.name for test in tests if "winml_py.core." in test.text],
        **ways,
    }
    figures: dict[str, Any] = {
        "lines of code": sum(source.code for source in sources),
        "lines of code in core/": sum(source.code for source in sources if source.name.startswith("winml_py.core")),
        "lines of docstrings": sum(source.docstrings for source in sources),
        "files": len(sources),
        "names in __all__": len(re.findall(r'"(\w+)"', texts[0])),
        "words of docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
        "lines of code of tests": sum(test.code for test in tests),
    }
    if ways:
        figures["options of commands"] = options
    return figures | {name: len(values) for name, values in names.items()} | {"names": names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure is above its ceiling")
    parser.add_argument("--json", type=Path, help="write the figures, and the names behind them, to a file")
    options = parser.parse_args()
    figures = measure()
    for name in [name for name in CEILINGS if name in figures]:
        print(f"{name:45} {figures[name]:>8,}  at most {CEILINGS[name]:,}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    above = [name for name, ceiling in CEILINGS.items() if figures.get(name, 0) > ceiling]
    if options.check and above:
        sys.exit(f"Above the ceiling: {', '.join(above)}. Take something away, or raise the ceiling and say what for.")


if __name__ == "__main__":
    main()
