"""Makes a release from a clean clone, and checks it as strangers would use it.

    python tests/tools/release.py [--suite none|quick|all] [--python VERSION]... [--dirty]

It builds the sdist, and the wheel from the sdist, into `dist/`, with a list of what an installation contains (an SBOM).
It installs the wheel in new environments, for each Python that the package supports and that can be had, with the
newest and with the lowest versions of all that it needs. In each, the README's first program gives its answer in an
empty folder, and tests run against the installed wheel. Each row that it prints is a check, or a figure, with what was
found. The exit code is 1 if a check failed. Only `dist/` is left. It needs Linux, git and a package index, and no other
package.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TOOLS = ["build", "cyclonedx-bom", "pip-audit", "twine", "uv"]

QUICK = [
    "tests/winml",
    "tests/core/evaluation",
    "tests/project/test_import.py",
    "tests/project/test_packaging.py",
    "tests/project/test_public_names.py",
]
"""The core of the tests, for `--suite quick`."""

LINTED = "tests/project/test_layers.py"
"""The tests of a linter, which the lowest versions leave out."""

IN_THE_WHEEL = (
    r"winml_py/(\w+/)*\w+\.pyi?",
    r"winml_py/py\.typed",
    r"winml_py/view/static/\w+\.(html|css|js|svg)",
    r"winml_py/examples/models/[\w.]+\.(onnx|txt)",
    r"winml_py/examples/samples/\w+\.py",
    r"winml_py/examples/samples/(browser|javascript)/\w+\.(html|mjs)",
    r"winml_py/examples/samples/pictures/\w+\.(jpg|png|md)",
    r"winml_py-[\d.]+\.dist-info/(METADATA|WHEEL|RECORD|entry_points\.txt|licenses/LICENSE)",
)
"""What a wheel may hold: names that match one of these as a whole, and no others."""

IN_ANY_WHEEL = {
    "winml_py/__init__.py",
    "winml_py/__init__.pyi",
    "winml_py/py.typed",
    "winml_py/examples/models/digits.onnx",
    "winml_py/examples/samples/pictures/seven.png",
}

NOT_IN_THE_SDIST = (".ci/", "benchmarks/results/")


class Report:
    """The checks made so far; each is printed as soon as it is known."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def add(self, what: str, found: object, is_good: bool | None = True) -> None:
        """Prints a row; None for what was not checked, or is a figure alone."""
        mark = {True: "ok", False: "FAILED", None: "--"}[is_good]
        print(f"{mark:7}{what:34}{found}", flush=True)
        if is_good is False:
            self.failed.append(what)

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A command that fails inside is a row that failed, with the end of what it printed."""
        try:
            yield
        except subprocess.CalledProcessError as error:
            last = (error.stdout or "").strip()[-1500:]
            self.add(what, f"exit code {error.returncode} of {' '.join(map(str, error.cmd))[:200]}\n{last}", False)


def run(*command: object, folder: Path | None = None, **variables: str) -> str:
    """What a command printed; its errors go there, too."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout


# What is built.


def clone(target: Path, is_dirty: bool) -> None:
    """Copies what is committed, or with `is_dirty` what the working tree has and git does not ignore."""
    changed = run("git", "status", "--porcelain", folder=ROOT)
    if not changed or not is_dirty:
        if changed:
            raise SystemExit(f"The working tree has changes; commit them, or say --dirty:\n{changed}")
        run("git", "clone", "--quiet", "--no-hardlinks", ROOT, target)
        return
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    # hatchling asks git what to leave out
    run("git", "init", "--quiet", folder=target)


def build(bin_folder: Path, tree: Path, target: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that was built from it."""
    run(bin_folder / "python", "-m", "build", "--outdir", target, tree)
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return sdist, wheel


def wheel_problems(wheel: Path, tree: Path) -> list[str]:
    """What a wheel holds that it should not, and what it lacks of the package in `tree`."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    unexpected = {name for name in names if not any(re.fullmatch(each, name) for each in IN_THE_WHEEL)}
    files = {path for path in (tree / "winml_py").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    info = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    expected = {path.relative_to(tree).as_posix() for path in files} | IN_ANY_WHEEL
    expected |= {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    return sorted([f"unexpected: {name}" for name in unexpected] + [f"missing: {name}" for name in expected - names])


def sdist_problems(sdist: Path, tree: Path) -> list[str]:
    """Where an sdist differs from the files that git knows in `tree`."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()} - {"PKG-INFO"}
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=tree).split("\0")
    expected = {name for name in listed if name and not name.startswith(NOT_IN_THE_SDIST)}
    return sorted(
        [f"unexpected: {name}" for name in names - expected] + [f"missing: {name}" for name in expected - names]
    )


def check_files(report: Report, bin_folder: Path, tree: Path, dist: Path, temporary: Path) -> Path:
    """Builds twice, checks what was built, and copies it to `dist`; gives the wheel."""
    sdist, wheel = build(bin_folder, tree, temporary / "dist")
    problems = wheel_problems(wheel, tree)
    report.add("the wheel's contents", "; ".join(problems[:5]) or "as pinned", not problems)
    problems = sdist_problems(sdist, tree)
    report.add("the sdist's contents", "; ".join(problems[:5]) or "the files of the repository", not problems)
    for path in (wheel, sdist):
        report.add(path.name, f"{path.stat().st_size / 1e6:.2f} MB", None)
    with report.step("twine check --strict"):
        run(bin_folder / "twine", "check", "--strict", sdist, wheel)
        report.add("twine check --strict", "passed")
    copy = Path(shutil.copytree(tree, temporary / "another" / "folder"))
    again = build(bin_folder, copy, temporary / "again")
    hashes = [[hashlib.sha256(path.read_bytes()).hexdigest() for path in pair] for pair in ((sdist, wheel), again)]
    report.add(
        "built again, elsewhere",
        f"the same bytes: {hashes[0] == hashes[1]}; wheel {hashes[0][1][:16]}",
        hashes[0] == hashes[1],
    )
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    shutil.copy2(sdist, dist)
    return Path(shutil.copy2(wheel, dist))


def other_bounds(tree: Path) -> list[str]:
    """What the package and its extras need with another bound than one lowest version; what the tests need aside."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name != "test"}
    stated = [*project["dependencies"], *(need for needs in extras.values() for need in needs)]
    return [need for need in stated if not re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+(; .*)?", need)]


# Where it is installed.


def supported_pythons(tree: Path) -> list[str]:
    """The versions that the package says it supports."""
    text = (tree / "pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def find_python(version: str, tree: Path) -> str | None:
    """An interpreter: on the path, of pyenv, or unpacked from Debian's packages; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (f"python{version}", *pyenv.glob(f"{version}.*/bin/python")):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            if run(candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip() == version:
                return str(candidate)
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return run(tree / ".ci" / "python-from-debian", version).splitlines()[-1]
    return None


def lowest_versions(bin_folder: Path, python: str, tree: Path, target: Path) -> str:
    """Writes constraints for pip: of what the package needs, the lowest versions that this Python has wheels for.

    Returns:
        Those that are above what pyproject.toml states, because older ones have no wheels.
    """
    options = ["--quiet", "--no-header", "--no-annotate", "--resolution", "lowest-direct", "--only-binary", ":all:"]
    extras = ["float16", "openvino"]
    options += [f"--extra={extra}" for extra in extras]
    text = run(bin_folder / "uv", "pip", "compile", *options, "--python", python, tree / "pyproject.toml")
    found = dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))
    target.write_text("".join(f"{name}=={version}\n" for name, version in found.items()))
    stated = dict(line.split("==") for line in run(sys.executable, tree / ".ci" / "lowest", *extras).split())
    above = [
        name for name in stated if not re.fullmatch(rf"{re.escape(stated[name])}(\.0)*", found.get(name, stated[name]))
    ]
    return ", ".join(f"{name} {found[name]}" for name in above)


def check_first_answer(report: Report, what: str, bin_folder: Path, tree: Path, folder: Path, install_s: float) -> None:
    """Runs what the README says first, in an empty folder, with the installed package alone."""
    code = re.findall(r"^```python\n(.*?)^```$", (tree / "README.md").read_text(), re.DOTALL | re.MULTILINE)[0]
    expected = code.strip().rpartition("#")[2].strip()  # its last line says what it prints
    folder.mkdir()
    with report.step(f"{what}: first answer"):
        began = time.perf_counter()
        run(bin_folder / "winml-py", "examples", folder=folder)
        answer = run(bin_folder / "python", "-c", code, folder=folder).strip()
        first_s = time.perf_counter() - began
        began = time.perf_counter()
        run(bin_folder / "python", "-c", code, folder=folder)
        words = (
            f"{answer}; {install_s + first_s:.1f} s with the installation, {time.perf_counter() - began:.2f} s later"
        )
        report.add(f"{what}: first answer", words, answer == expected)
        place = run(bin_folder / "python", "-c", "import winml_py; print(winml_py.__file__)", folder=folder)
        report.add(f"{what}: is the wheel", "in site-packages", "site-packages" in place)
        run(bin_folder / "python", "-m", "winml_py", "--version", folder=folder)
        command = [bin_folder / "winml-py", "convert", "models/digits.onnx", "--float16", "--output", "half.onnx"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        is_told = done.returncode == 7 and "pip install 'winml-py[float16]'" in " ".join(done.stderr.split())
        report.add(f"{what}: without extras", "convert says what to install" if is_told else done.stderr, is_told)


def check_suite(report: Report, what: str, wheel: Path, bin_folder: Path, tests: list[str], folder: Path) -> None:
    """Runs tests in a copy of the repository that has what was installed in the place of the package's source."""
    (installed,) = bin_folder.parent.glob("lib/python*/site-packages/winml_py")
    shutil.rmtree(folder / "winml_py", ignore_errors=True)
    shutil.copytree(installed, folder / "winml_py", ignore=shutil.ignore_patterns("examples", "__pycache__"))
    with report.step(f"{what}: tests"):
        out = run(
            bin_folder / "pytest", "-q", "-p", "no:cacheprovider", *tests, folder=folder, WINML_PY_WHEEL=str(wheel)
        )
        report.add(f"{what}: tests", out.strip().splitlines()[-1].strip("= "))


def check_python(
    report: Report, version: str, wheel: Path, tree: Path, tools: Path, temporary: Path, suite: str, is_first: bool
) -> None:
    """Installs the wheel for one Python, with the newest and with the lowest versions, and tries it."""
    python = find_python(version, tree)
    if python is None:
        report.add(f"Python {version}", "missing: neither here nor in Debian's packages", None)
        return
    report.add(f"Python {version}", run(python, "--version").strip(), None)
    folder, constraints = temporary / version, temporary / f"lowest-{version}.txt"
    folder.mkdir()
    with report.step(f"{version} lowest: versions"):
        above = lowest_versions(tools, python, tree, constraints)
        stated = "as pyproject.toml states" + (f"; the first with wheels: {above}" if above else "")
        report.add(f"{version} lowest: versions", stated)
    for ages in ("newest", "lowest"):
        what, bin_folder = f"{version} {ages}", folder / ages / "bin"
        pinned = ["--constraint", constraints] if ages == "lowest" else []
        with report.step(f"{what}: installed"):
            began = time.perf_counter()
            run(python, "-m", "venv", folder / ages)
            run(bin_folder / "pip", "install", "--quiet", "--only-binary", ":all:", *pinned, wheel)
            install_s = time.perf_counter() - began
            check_first_answer(report, what, bin_folder, tree, folder / f"empty-{ages}", install_s)
            if suite == "none":
                continue
            # The same environment, with what the tests need beside the package. Linters need newer versions.
            needs = run(sys.executable, tree / ".ci" / "lowest", "--tests").split() if pinned else [f"{wheel}[test]"]
            run(bin_folder / "pip", "install", "--quiet", *pinned, *needs)
            markers = "" if is_first and ages == "newest" else "not once and not one_python and not exhaustive"
            tests = QUICK if suite == "quick" else ["tests", *(["--ignore", LINTED] if pinned else [])]
            check_suite(report, what, wheel, bin_folder, [*tests, "-m", markers], temporary / "suite")
        shutil.rmtree(folder / ages, ignore_errors=True)  # a gigabyte with what the tests need


# What it brings along.


def size(folder: Path) -> float:
    """Megabytes of the files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def install(tools: Path, environment: Path, requirement: object) -> Path:
    """Installs in a new environment, with compiled files as pip leaves them, in a tenth of pip's time."""
    venv.create(environment)
    python = environment / "bin" / "python"
    run(tools / "uv", "pip", "install", "--compile-bytecode", "--python", python, requirement)
    (installed,) = (environment / "lib").glob("python*/site-packages")
    return installed


def check_sizes(report: Report, tools: Path, wheel: Path, tree: Path, temporary: Path) -> Path:
    """Measures what pip installs, alone and with each extra; gives the folder of the installation alone."""
    with report.step("size of the installation"):
        installed = install(tools, temporary / "sizes", wheel)
        base = size(installed)
        report.add("size of the installation", f"{base:.0f} MB", None)
    each = {path.name: size(path) for path in installed.iterdir() if path.is_dir() and "dist-info" not in path.name}
    largest = sorted(each.items(), key=lambda item: -item[1])[:6]
    report.add("the largest folders, in MB", ", ".join(f"{name} {megabytes:.0f}" for name, megabytes in largest), None)
    unwanted = [name for name in ("sympy", "onnx_ir") if name in each]
    report.add("what only converters need", ", ".join(unwanted) or "not in the base installation", not unwanted)
    added = []
    for extra in tomllib.loads((tree / "pyproject.toml").read_text())["project"]["optional-dependencies"]:
        with report.step(f"size of winml-py[{extra}]"):
            more = size(install(tools, temporary / f"with-{extra}", f"{wheel}[{extra}]")) - base
            added.append(f"{extra} {more:.0f}")
        shutil.rmtree(temporary / f"with-{extra}")
    report.add("what extras add, in MB", ", ".join(added), None)
    return installed


def check_dependencies(report: Report, tools: Path, installed: Path, tree: Path, wheel: Path) -> None:
    """Bounds in pyproject.toml, a list of all that is installed, and known faults of it."""
    pinned = other_bounds(tree)
    report.add("bounds of versions", "; ".join(pinned) or "lower ones alone", not pinned)
    # pip notes the path that the wheel was installed from, which is no business of the list's readers
    for note in installed.glob("winml_py-*.dist-info/direct_url.json"):
        note.unlink()
    sbom = wheel.parent / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    options = ["--output-reproducible", "--mc-type", "library", "--pyproject", tree / "pyproject.toml"]
    with report.step("list of all packages (SBOM)"):
        run(tools / "cyclonedx-py", "environment", *options, "--output-file", sbom, installed.parents[2])
        facts = json.loads(sbom.read_text())
        facts["metadata"]["component"]["version"] = wheel.name.split("-")[1]  # pyproject.toml leaves it to hatchling
        sbom.write_text(json.dumps(facts, indent=2) + "\n")
        report.add("list of all packages (SBOM)", f"{sbom.name}, {len(facts['components'])} packages")
    # It ends with 0 also where it could ask nobody: the answer says what was looked up.
    command = [tools / "pip-audit", "--path", installed, "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    try:
        answers = json.loads(done.stdout)["dependencies"]
    except ValueError:
        answers = []
    audited = [answer for answer in answers if "skip_reason" not in answer]
    faults = [f"{answer['name']} {fault['id']}" for answer in audited for fault in answer["vulns"]]
    if audited:
        words = f"{len(audited)} of {len(answers)} packages looked up; {', '.join(faults) or 'no known fault'}"
        report.add("pip-audit", words, not faults)
    else:
        report.add("pip-audit", "not audited: no database of faults can be reached from here", None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=["none", "quick", "all"], default="all", help="which tests to run")
    parser.add_argument("--python", action="append", metavar="VERSION", help="only these; may be repeated")
    parser.add_argument("--dirty", action="store_true", help="take the working tree as it is, changes included")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="winml-py-release-") as name:
        temporary = Path(name)
        tree, tools = temporary / "clone", temporary / "tools" / "bin"
        tree.mkdir()
        clone(tree, options.dirty)
        commit = run("git", "rev-parse", "--short", "HEAD", folder=ROOT).strip()
        report.add("clone", f"of {commit}" + (", with the changes of the working tree" if options.dirty else ""), None)
        venv.create(tools.parent, with_pip=True)
        run(tools / "pip", "install", "--quiet", "--no-compile", *TOOLS)
        wheel = check_files(report, tools, tree, ROOT / "dist", temporary)
        shutil.copytree(tree, temporary / "suite", ignore=shutil.ignore_patterns("winml_py", ".git"))
        installed = check_sizes(report, tools, wheel, tree, temporary)
        check_dependencies(report, tools, installed, tree, wheel)
        for number, version in enumerate(options.python or supported_pythons(tree)):
            check_python(report, version, wheel, tree, tools, temporary, options.suite, number == 0)
    print(f"\n{'FAILED: ' + ', '.join(report.failed) if report.failed else 'All checks passed.'}")
    print("dist/: " + ", ".join(sorted(path.name for path in (ROOT / "dist").iterdir())))
    raise SystemExit(bool(report.failed))


if __name__ == "__main__":
    main()
