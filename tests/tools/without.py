"""What is left without a capability: takes each away, with all that stands on it, and tests the rest.

    python tests/tools/without.py [CAPABILITY ...] [--import-only]

The package is copied to a temporary folder. There the capability goes, then every module that imports something that
has gone, and so on; `winml_py/core/` must lose nothing. Each module that is left is imported, and the tests that name
nothing of what has gone are run ("-m 'not once'"). Without names, each capability is taken away in turn; `all` takes
away all of them at once, which leaves the core.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

from tools.house import ROOT, imported, read

CAPABILITIES = [
    "authoring",
    "_http",
    "cli",
    "compare",
    "experimental",
    "float16",
    "_graphs",
    "_inputs",
    "operators",
    "optimize",
    "perf",
    "scale",
    "serve",
    "testing",
    "view",
    "vision",
    "winrt",
]
COPIED = [
    "winml_py",
    "tests",
    "models",
    "samples",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]


def take_away(folder: Path, capabilities: list[str]) -> set[str]:
    """Deletes capabilities from a copy, and what stands on them; gives the names of all modules that have gone."""
    found = [read(path, folder) for path in sorted((folder / "winml_py").rglob("*.py"))]
    sources = {source.name: source for source in found}
    gone = {name for name in sources for each in capabilities if re.match(rf"winml_py\.{each}\b", name)}
    while True:
        more = {
            name
            for name, source in sources.items()
            if name not in gone and any(module in gone for module, _ in imported(source, set(sources)))
        }
        if not more:
            break
        gone |= more
    lost = [name for name in gone if name.startswith("winml_py.core") or name == "winml_py"]
    if lost:
        raise SystemExit(f"the core stands on {', '.join(capabilities)}: {', '.join(sorted(lost))}")
    for name in gone:
        sources[name].path.unlink()
    return gone


def check(capabilities: list[str], is_import_only: bool) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in COPIED:
            source = ROOT / name
            ignored = shutil.ignore_patterns("__pycache__", "_build")
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignored)
            else:
                shutil.copy(source, folder / name)
        gone = take_away(folder, capabilities)
        left = [
            read(path, folder).name
            for path in sorted((folder / "winml_py").rglob("*.py"))
            if "__main__" not in path.name
        ]
        environment = os.environ | {"PYTHONPATH": str(folder)}
        lines = [f"import {name}" for name in left if not name.endswith(("_child", ".probe"))]
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=folder, env=environment, check=False)
        words = f"without {', '.join(capabilities)}: {len(gone)} modules gone, {len(left)} left"
        if done.returncode or is_import_only:
            print(f"{words}; {'they cannot be imported' if done.returncode else 'they can be imported'}")
            return not done.returncode
        tops = {".".join(name.split(".")[:2]) for name in gone} | {name for name in gone if name.count(".") > 1}
        words_of_gone = [rf"\b{re.escape(name)}\b" for name in sorted(tops)]
        words_of_gone += [
            rf"from winml_py import [^\n]*\b{name.split('.')[1]}\b" for name in sorted(tops) if name.count(".") == 1
        ]
        named = re.compile("|".join(words_of_gone))
        dropped = {path.stem for path in (folder / "tests").rglob("*.py") if named.search(path.read_text())}
        while True:  # tests import helpers
            helped = re.compile(rf"^from (?:helpers|tools)(?:\.| import .*?\b)(?:{'|'.join(dropped)})\b", re.MULTILINE)
            more = {
                p.stem
                for p in (folder / "tests").rglob("*.py")
                if p.stem not in dropped and helped.search(p.read_text())
            }
            if not more:
                break
            dropped |= more
        tests = [str(path) for path in sorted((folder / "tests").rglob("test_*.py")) if path.stem not in dropped]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["-m", "not once and not exhaustive", *tests]
        done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
        last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-300:]
        failed = re.findall(r"^(?:FAILED|ERROR) .*$", done.stdout, re.MULTILINE)
        print("\n".join([f"{words}; {len(tests)} files of tests: {last}", *failed]), flush=True)
        return not done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capabilities", nargs="*", metavar="CAPABILITY", help=", ".join(CAPABILITIES))
    parser.add_argument("--import-only", action="store_true", help="runs no tests")
    options = parser.parse_args()
    wanted = options.capabilities or CAPABILITIES
    groups = [CAPABILITIES if name == "all" else [name] for name in wanted]
    found = [check(group, options.import_only) for group in groups]  # all of them, also after one that fails
    if not all(found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
