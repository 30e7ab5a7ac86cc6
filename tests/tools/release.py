"""Makes a release from a clean clone, and checks it as strangers would use it.

    python tests/tools/release.py [--suite quick|all] [--python VERSION]...

It builds what is committed: the sdist, and the wheel from the sdist, into `dist/`, with a list of what an installation
contains (an SBOM). It installs the wheel in new environments, for each Python that the package supports and that can be
had, with the newest and with the lowest versions of all that it needs. In each, the README's first program gives its
answer in an empty folder, and tests run against the installed wheel. It prints what it checked, and ends with the first
check that fails. It needs Linux, git and a package index, and no other package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TOOLS = ["build", "cyclonedx-bom", "pip-audit", "twine", "uv"]

QUICK = [
    "tests/winml",
    "tests/core/session",
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
    r"winml_py/_pyinstaller/hook-winml_py\.py",
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


def check(what: str, found: object, is_good: bool = True) -> None:
    """Prints what was found; ends the program if that is not good."""
    print(f"{'ok' if is_good else 'FAILED':7}{what:34}{found}", flush=True)
    if not is_good:
        raise SystemExit(1)


def run(*command: object, folder: Path | None = None, **variables: str) -> str:
    """What a command printed; its errors go there, too. The program ends if the command fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    words = [*map(str, command)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(words, cwd=folder, env=environment, text=True, check=False, **streams)
    if done.returncode:
        check(" ".join(words)[:200], f"exit code {done.returncode}\n{done.stdout.strip()[-1500:]}", is_good=False)
    return done.stdout


# What is built.


def clone(target: Path) -> None:
    changed = run("git", "status", "--porcelain", folder=ROOT)
    if changed:
        raise SystemExit(f"Expected a working tree without changes; commit them:\n{changed}")
    run("git", "clone", "--quiet", "--no-hardlinks", ROOT, target)
    check("clone", f"of {run('git', 'rev-parse', '--short', 'HEAD', folder=target).strip()}")


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


def check_files(tools: Path, tree: Path, dist: Path, temporary: Path) -> Path:
    """Builds twice, checks what was built, and copies it to `dist`; gives the wheel."""
    sdist, wheel = build(tools, tree, temporary / "dist")
    problems = wheel_problems(wheel, tree)
    check("the wheel's contents", "; ".join(problems[:5]) or "as pinned", not problems)
    problems = sdist_problems(sdist, tree)
    check("the sdist's contents", "; ".join(problems[:5]) or "the files of the repository", not problems)
    run(tools / "twine", "check", "--strict", sdist, wheel)
    check("twine check --strict", "passed")
    copy = Path(shutil.copytree(tree, temporary / "another" / "folder"))
    sdist_again, wheel_again = build(tools, copy, temporary / "again")
    is_same = sdist.read_bytes() == sdist_again.read_bytes() and wheel.read_bytes() == wheel_again.read_bytes()
    check("built again, elsewhere", "the same bytes" if is_same else "other bytes", is_same)
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    shutil.copy2(sdist, dist)
    return Path(shutil.copy2(wheel, dist))


# Where it is installed.


def supported_pythons(tree: Path) -> list[str]:
    """The versions that the package says it supports."""
    text = (tree / "pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def find_python(version: str, tree: Path) -> str | None:
    """An interpreter: on the path, of pyenv, or unpacked from Debian's packages; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for candidate in (f"python{version}", *pyenv.glob(f"{version}.*/bin/python")):
        # pyenv has a `python3.14` on the path that fails where that version is not chosen
        if shutil.which(candidate) and not subprocess.run([candidate, "--version"], capture_output=True).returncode:
            return str(candidate)
    found = subprocess.run([tree / ".ci" / "python-from-debian", version], capture_output=True, text=True, check=False)
    return None if found.returncode else found.stdout.splitlines()[-1]


def install(tools: Path, python: str, environment: Path, tree: Path, wheel: Path, ages: str) -> None:
    """Makes an environment with the wheel, and the newest or lowest versions that this Python has wheels for."""
    run(python, "-m", "venv", environment)
    uv = [tools / "uv", "pip", "install", "--python", environment / "bin" / "python", "--only-binary", ":all:"]
    if ages == "lowest":
        run(*uv, "--resolution", "lowest-direct", "-r", tree / "pyproject.toml")
    run(*uv, wheel)


def check_first_answer(what: str, bin_folder: Path, tree: Path, folder: Path) -> None:
    """Runs what the README says first, in an empty folder, with the installed package alone."""
    code = re.findall(r"^```python\n(.*?)^```$", (tree / "README.md").read_text(), re.DOTALL | re.MULTILINE)[0]
    expected = code.strip().rpartition("#")[2].strip()  # its last line says what it prints
    folder.mkdir()
    run(bin_folder / "winml-py", "examples", folder=folder)
    answer = run(bin_folder / "python", "-c", code, folder=folder).strip()
    check(f"{what}: first answer", answer, answer == expected)
    place = run(bin_folder / "python", "-c", "import winml_py; print(winml_py.__file__)", folder=folder).strip()
    check(f"{what}: is the wheel", place, "site-packages" in place)
    run(bin_folder / "python", "-m", "winml_py", "--version", folder=folder)
    command = [bin_folder / "winml-py", "convert", "models/digits.onnx", "--output", "half.onnx"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    is_told = done.returncode == 7 and "pip install 'winml-py[float16]'" in " ".join(done.stderr.split())
    check(f"{what}: without extras", "convert says what to install" if is_told else done.stderr, is_told)


def check_suite(what: str, wheel: Path, bin_folder: Path, tests: list[str], folder: Path) -> None:
    """Runs tests in a copy of the repository that has what was installed in the place of the package's source."""
    (installed,) = bin_folder.parent.glob("lib/python*/site-packages/winml_py")
    shutil.rmtree(folder / "winml_py", ignore_errors=True)
    shutil.copytree(installed, folder / "winml_py", ignore=shutil.ignore_patterns("examples", "__pycache__"))
    pytest = [bin_folder / "pytest", "-q", "-p", "no:cacheprovider", *tests]
    printed = run(*pytest, folder=folder, WINML_PY_WHEEL=str(wheel))
    check(f"{what}: tests", printed.strip().splitlines()[-1].strip("= "))


def check_python(
    version: str, wheel: Path, tree: Path, tools: Path, temporary: Path, suite: str, is_first: bool
) -> None:
    """Installs the wheel for one Python, with the newest and with the lowest versions, and tries it."""
    python = find_python(version, tree)
    if python is None:
        print(f"--     Python {version} is neither here nor in Debian's packages: not tested")
        return
    for ages in ("newest", "lowest"):
        what, environment = f"{version} {ages}", temporary / f"{version}-{ages}"
        install(tools, python, environment, tree, wheel, ages)
        check_first_answer(what, environment / "bin", tree, temporary / f"empty-{version}-{ages}")
        lowest = [tree / ".ci" / "lowest", "--tests"]
        # The same environment, with what the tests need beside the package. Linters need newer versions.
        needs = [f"{wheel}[test]"] if ages == "newest" else run(sys.executable, *lowest).split()
        run(tools / "uv", "pip", "install", "--python", environment / "bin" / "python", *needs)
        tests = QUICK if suite == "quick" else ["tests"]
        markers = "" if is_first and ages == "newest" else "not once and not one_python and not exhaustive"
        if ages == "lowest":
            tests = [*tests, "--ignore", LINTED]
        check_suite(what, wheel, environment / "bin", [*tests, "-m", markers], temporary / "suite")
        shutil.rmtree(environment)  # a gigabyte with what the tests need


# What it brings along.


def check_dependencies(tools: Path, tree: Path, wheel: Path, temporary: Path) -> None:
    """The size of an installation, a list of all that is installed, and known faults of it."""
    environment = temporary / "installed"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    run(tools / "uv", "pip", "install", "--compile-bytecode", "--python", environment / "bin" / "python", wheel)
    (installed,) = environment.glob("lib/python*/site-packages")
    size = sum(path.lstat().st_size for path in installed.rglob("*") if path.is_file()) / 1e6
    check("size of the installation", f"{size:.0f} MB")
    # The path that the wheel was installed from is no business of the list's readers.
    for note in installed.glob("winml_py-*.dist-info/direct_url.json"):
        note.unlink()
    sbom = wheel.parent / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    options = ["--output-reproducible", "--mc-type", "library", "--pyproject", tree / "pyproject.toml"]
    run(tools / "cyclonedx-py", "environment", *options, "--output-file", sbom, environment)
    facts = json.loads(sbom.read_text())
    facts["metadata"]["component"]["version"] = wheel.name.split("-")[1]  # pyproject.toml leaves it to hatchling
    sbom.write_text(json.dumps(facts, indent=2) + "\n")
    check("list of all packages (SBOM)", f"{sbom.name}, {len(facts['components'])} packages")
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
        check("pip-audit", words, not faults)
    else:
        print("--     pip-audit: not audited, as no database of faults can be reached from here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=["quick", "all"], default="all", help="which tests to run")
    parser.add_argument("--python", action="append", metavar="VERSION", help="only these; may be repeated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="winml-py-release-") as name:
        temporary = Path(name)
        tree, tools = temporary / "clone", temporary / "tools" / "bin"
        clone(tree)
        import venv  # the embeddable Python of Windows lacks it

        venv.create(tools.parent, with_pip=True)
        run(tools / "pip", "install", "--quiet", "--no-compile", *TOOLS)
        wheel = check_files(tools, tree, ROOT / "dist", temporary)
        shutil.copytree(tree, temporary / "suite", ignore=shutil.ignore_patterns("winml_py", ".git"))
        check_dependencies(tools, tree, wheel, temporary)
        for number, version in enumerate(options.python or supported_pythons(tree)):
            check_python(version, wheel, tree, tools, temporary, options.suite, is_first=number == 0)
    print("dist/: " + ", ".join(sorted(path.name for path in (ROOT / "dist").iterdir())))


if __name__ == "__main__":
    main()
