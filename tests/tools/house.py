"""The shape of the package in figures: files, their sizes and their imports, and what a bound value goes through.

    python tests/tools/house.py [--json FILE]

Lines of code are those that are no blank lines, no comments and no docstrings. What only one other module imports is
counted without commands (`cli/`), providers, `__init__.py` files and what the public names stand in; the stub counts as
an importer. "Inner names" are what capabilities import from the core beside its public names, `core.base`, errors and
enumerations. The way of a value is recorded while tensors, arrays, pictures, lists and maps are bound: the files whose
functions run, and the calls from a file to one that stands above it in the staircase. No figure is a goal of itself.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import statistics
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "winml_py"
CAPABILITIES = {"authoring", "cli", "experimental", "float16", "graphs", "inputs", "operators", "optimize", "perf"}
CAPABILITIES |= {"backend", "scale", "vision", "winrt"}
FLOORS = (
    "base",
    "cache onnx_file",
    "imaging",
    "contracts features",
    "runtime",
    "model",
    "evaluation",
    "streams",
    "session",
)
"""The rooms of the core, from below."""


class Source(NamedTuple):
    """A file of the package.

    Attributes:
        name: of the module.
        path: of the file.
        tree: parsed.
        code: the numbers of its lines of code.
        lines: how many lines it has.
        import_lines: how many of them import.
        comments: how many comments it has, orders to tools left out.
    """

    name: str
    path: Path
    tree: ast.Module
    code: set[int]
    lines: int
    import_lines: int
    comments: list[int]


def read(path: Path, root: Path = ROOT) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    words: set[int] = set()
    imports: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            words |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = text.split("\n")
    code = {number for number, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#")} - words
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    orders = ("# type:", "# noqa")
    comments = [
        each.start[0] for each in tokens if each.type == tokenize.COMMENT and not each.string.startswith(orders)
    ]
    parts = path.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Source(name, path, tree, code, len(lines), len(imports), comments)


def imported(source: Source, modules: set[str]) -> Iterator[tuple[str, str]]:
    """The modules of the package that a file imports, each with the name that it takes of it; "" for all."""
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


def functions(source: Source) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Each function, and its lines of code."""
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node, len(source.code & set(range(node.lineno, (node.end_lineno or 0) + 1)))


def inner_names(sources: list[Source], modules: set[str], public: set[str]) -> set[str]:
    """What capabilities take of the core beside its public names; names of modules are followed to what is used."""
    found = set()
    for source in sources:
        if source.name.split(".")[1:2] == [] or source.name.split(".")[1] not in CAPABILITIES:
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


WALK = """
import sys
import numpy as np
from PIL import Image
from winml_py import LearningModel, LearningModelBinding, LearningModelSession, SoftwareBitmap, TensorFloat
digits = LearningModelBinding(LearningModelSession(LearningModel.load("models/digits.onnx")))
path = {}
def look(frame, event, _):
    if event == "call":
        to, back = frame.f_code.co_filename, frame.f_back
        path.setdefault(to, set()).add(back.f_code.co_filename if back else "")
array = np.zeros((1, 1, 28, 28), np.float32)
image = Image.new("RGB", (40, 30))
values = [array, TensorFloat.from_numpy(array), image, SoftwareBitmap.from_pil(image), np.zeros((30, 30), np.uint8)]
for value in values:
    sys.setprofile(look)
    digits.bind("image", value)
    sys.setprofile(None)
for to, backs in path.items():
    for back in backs:
        print(to, back, sep="\\t")
"""

ONE = """
import sys
import numpy as np
from winml_py import LearningModel, LearningModelSession
with LearningModelSession(LearningModel.load("models/digits.onnx")) as session:
    session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
print(sum(name.split(".")[0] == "winml_py" for name in sys.modules))
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def floor_of(path: str) -> int:
    """On which floor of the core a file stands; below all of them, what is no part of it."""
    match = re.search(r"winml_py/core/(\w+)/", path)
    return next((at for at, rooms in enumerate(FLOORS) if match and match[1] in rooms.split()), -1)


def figures() -> dict[str, Any]:
    sources = [read(path) for path in sorted(PACKAGE.rglob("*.py"))]
    modules = {source.name for source in sources}
    stub = ROOT / "winml_py" / "__init__.pyi"
    importers: dict[str, set[str]] = defaultdict(set)
    for source in [*sources, read(stub)]:
        for module, _ in imported(source, modules):
            importers[module].add(str(source.path))
    faces = ("cli", "winrt", "core.runtime.providers")
    single = [
        source.name
        for source in sources
        if len(importers[source.name]) == 1
        and source.path.stem != "__init__"
        and not source.name.removeprefix("winml_py.").startswith(faces)
    ]
    sizes = [len(source.code) for source in sources]
    long = [(source, node, size) for source in sources for node, size in functions(source) if size > 25]
    bare = [
        f"{source.name}.{node.name}"
        for source, node, _ in long
        if not any(node.lineno <= line <= (node.end_lineno or 0) for line in source.comments)
    ]
    steps = [line.split("\t") for line in run(WALK).splitlines()]
    steps = [(to, back) for to, back in steps if "winml_py/" in to]
    climbs = {(back, to) for to, back in steps if -1 < floor_of(back) < floor_of(to)}
    public = set(re.findall(r'"(\w+)"', stub.read_text(encoding="utf-8")))
    text = "\n".join(source.path.read_text(encoding="utf-8") for source in sources)
    code = sum(sizes)
    return {
        "files": len(sources),
        "median lines of code of files with more than 3": statistics.median(size for size in sizes if size > 3),
        "files of 4 to 40 lines of code": sum(4 <= size <= 40 for size in sizes),
        "files that one other imports": len(single),
        "import lines, of 100": 100 * sum(source.import_lines for source in sources) / sum(s.lines for s in sources),
        "comments, for 100 lines of code": 100 * sum(len(source.comments) for source in sources) / code,
        "functions above 25 lines of code": len(long),
        "those of them without a comment": len(bare),
        "longest function": max(size for *_, size in long),
        "longest file": max(source.lines for source in sources),
        "lines of code": code,
        "files that a bound value enters": len({to for to, _ in steps}),
        "climbs on its way": len(climbs),
        "modules after one evaluation": int(run(ONE)),
        "inner names that capabilities use": len(inner_names(sources, modules, public)),
        "calls of typing.cast": len(re.findall(r"(?<![.\w])(?<!def )cast\(", text)),
        "lines with Any": sum("Any" in line for line in text.split("\n")),
        "names": {
            "files that one other imports": single,
            "functions without a comment": bare,
            "files of the way": sorted({to.partition("winml_py/")[2] for to, _ in steps}),
            "climbs": sorted(f"{a.partition('winml_py/')[2]} -> {b.partition('winml_py/')[2]}" for a, b in climbs),
            "inner names": sorted(inner_names(sources, modules, public)),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="writes the figures, and the names behind them, to a file")
    options = parser.parse_args()
    found = figures()
    for name, value in found.items():
        if name != "names":
            print(f"{name:50} {value:,.1f}" if isinstance(value, float) else f"{name:50} {value:,}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
