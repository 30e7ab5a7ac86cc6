"""What is left without a capability: takes each away, with all that stands on it, and tests the rest.

    python tests/tools/without.py [CAPABILITY ...] [--import-only]

The package is copied to a temporary folder. There the capability goes, then every module that imports something that
has gone, and so on; `winml_py/core/` must lose nothing. Each module that is left is imported, and the tests that name
nothing of what has gone are run. Without names, each capability is taken away in turn; `all` takes away all of them at
once, which leaves the core.
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

CORE = {"__init__", "__main__", "__pycache__", "core", "enums", "errors", "py", "results"}
CAPABILITIES = sorted({path.stem for path in (ROOT / "winml_py").iterdir()} - CORE)


def take_away(folder: Path, capabilities: list[str]) -> tuple[set[str], list[str]]:
    """Deletes capabilities from a copy, and what stands on them; gives the modules that have gone, and those left."""
    found = [read(path, folder) for path in sorted((folder / "winml_py").rglob("*.py"))]
    sources = {source.name: source for source in found}
    imports = {name: {module for module, _ in imported(source, set(sources))} for name, source in sources.items()}
    gone: set[str] = set()
    more = {name for name in sources for each in capabilities if re.match(rf"winml_py\.{each}\b", name)}
    while more:
        gone |= more
        more = {name for name in sources if name not in gone and imports[name] & gone}
    lost = [name for name in gone if name.startswith("winml_py.core") or name == "winml_py"]
    if lost:
        raise SystemExit(f"the core stands on {', '.join(capabilities)}: {', '.join(sorted(lost))}")
    for name in gone:
        sources[name].path.unlink()
    return gone, [name for name in sources if name not in gone]


def tests_without(folder: Path, gone: set[str]) -> list[Path]:
    """The files of tests that name none of these modules, and no helper that does."""
    texts = {path: path.read_text() for path in sorted((folder / "tests").rglob("*.py"))}
    patterns = {rf"\b{re.escape(name)}\b" for name in gone}
    for name in {name.split(".")[1] for name in gone}:
        patterns |= {rf"\bwinml_py\.{name}\b", rf"from winml_py import [^\n]*\b{name}\b"}
    while True:
        dropped = {path for path, text in texts.items() if re.search("|".join(patterns), text, re.MULTILINE)}
        more = {rf"^from (?:helpers|tools)(?:\.| import .*?\b){path.stem}\b" for path in dropped} - patterns
        if not more:
            return [path for path in texts if path.name.startswith("test_") and path not in dropped]
        patterns |= more


def check(capabilities: list[str], is_import_only: bool) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        ignored = shutil.ignore_patterns("__pycache__", "_build", ".git", ".venv*")
        folder = Path(shutil.copytree(ROOT, Path(temporary, "copy"), ignore=ignored))
        gone, left = take_away(folder, capabilities)
        words = f"without {', '.join(capabilities)}: {len(gone)} modules gone, {len(left)} left"
        environment = os.environ | {"PYTHONPATH": str(folder)}
        programs = ("__main__", "_child", ".probe")
        imports = "\n".join(f"import {name}" for name in left if not name.endswith(programs))
        done = subprocess.run([sys.executable, "-c", imports], cwd=folder, env=environment, check=False)
        if done.returncode or is_import_only:
            print(f"{words}; {'they cannot be imported' if done.returncode else 'they can be imported'}")
            return not done.returncode
        tests = tests_without(folder, gone)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["-m", "not once and not exhaustive", *map(str, tests)]
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
