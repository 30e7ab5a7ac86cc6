"""Does what somebody does in the first hour after `pip install winml-py`, and says of each step whether it is right.

    python tests/tools/first_hour.py

It is written for Windows, where it uses consoles, drives, backslashes and cmd.exe. Elsewhere it tries the other steps.
Everything happens in a new folder. Its name has a space, an umlaut and letters that no Western code page has.

The exit code is 1 if a step is wrong.

Fonts, a browser and PowerShell are not tried.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers.processes import IS_WINDOWS, drop_line_of_wine, interrupt, start_program

PROGRAM = str(Path(sys.executable).with_name("winml-py.exe" if IS_WINDOWS else "winml-py"))
DIGITS, SEVEN, LABELS = (
    str(Path(path)) for path in ("models/digits.onnx", "samples/pictures/seven.png", "models/digits.labels.txt")
)
STEPS: list[tuple[str, Callable[[], str]]] = []
"""What is tried, and how: the function returns what it saw, and raises an AssertionError if that is wrong."""


def step(name: str, only_windows: bool = False) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Adds a step."""

    def add(function: Callable[[], str]) -> Callable[[], str]:
        if IS_WINDOWS or not only_windows:
            STEPS.append((name, function))
        return function

    return add


def run(*words: str, code: int = 0, program: str = PROGRAM) -> str:
    """Runs `winml-py`; returns what it printed."""
    done = subprocess.run([program, *words], capture_output=True, encoding="utf-8", errors="replace", check=False)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def run_json(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def find_best(facts: Any, place: int = 0) -> str:
    """The best class of a result of `run --json`."""
    best = facts["results"][place]["outputs"]["probabilities"]["top"][0]
    return f"{best['index']}, {best['value']:.4f}"


def require_equal(came: object, wanted: object) -> str:
    assert came == wanted, f"expected {wanted!r}, got {came!r}"
    return str(came)


@step("the examples")
def copy_examples() -> str:
    copied = run_json("examples")["files"]
    assert Path(DIGITS).is_file()
    assert Path(SEVEN).is_file()
    return f"{len(copied)} files in {os.getcwd()!a}"


@step("run, with the separators of the system")
def classify() -> str:
    return require_equal(find_best(run_json("run", DIGITS, SEVEN)), "7, 0.8716")


@step("run, with a drive")
def classify_by_absolute_paths() -> str:
    facts = run_json("run", os.path.abspath(DIGITS), os.path.abspath(SEVEN), "--labels", os.path.abspath(LABELS))
    return require_equal(find_best(facts), "7, 0.8716")


@step("run, with slashes")
def classify_with_slashes() -> str:
    facts = run_json("run", DIGITS.replace(os.sep, "/"), SEVEN.replace(os.sep, "/"))
    return require_equal(find_best(facts), "7, 0.8716")


@step("a pattern, which cmd.exe does not expand")
def match_a_pattern() -> str:
    results = run_json("run", DIGITS, os.path.join("samples", "pictures", "[s]*.png"))["results"]
    names = [Path(result["input"]).name for result in results]
    assert "seven.png" in names
    assert all(name.startswith("s") for name in names), names
    return ", ".join(names)


@step("--output of a picture, into the same folder and another one")
def write_pictures() -> str:
    cat = str(Path("samples/pictures/cat.jpg"))
    run("run", str(Path("models/edges.onnx")), cat, "--output", "edges ä 上.png")
    run("run", str(Path("models/edges.onnx")), cat, SEVEN, "--output", f"drawn{os.sep}")
    sizes = [Path("edges ä 上.png").stat().st_size, *(path.stat().st_size for path in Path("drawn").iterdir())]
    assert len(sizes) == 3
    assert sizes[0] in sizes[1:]
    return "3 pictures"


@step("doctor")
def diagnose() -> str:
    facts = run_json("doctor")
    problems = [fact for fact in facts["problems"] if "DirectML" not in fact]
    assert facts["devices"][0]["hardware"] == "cpu"
    return f"{facts['system']}; problems: {problems or 'none'}"


@step("info, devices")
def describe() -> str:
    assert run_json("info", DIGITS)["inputs"][0]["name"] == "image"
    return str(run_json("devices")["devices"][0]["name"])


@step("convert, and the answer of the new model")
def convert() -> str:
    run("convert", DIGITS, "--output", "halb 上.onnx")
    return require_equal(find_best(run_json("run", "halb 上.onnx", SEVEN)), "7, 0.8716")


@step("compare, perf")
def compare() -> str:
    run("compare", DIGITS, "halb 上.onnx", SEVEN)
    phases = run_json("perf", DIGITS, SEVEN, "--iterations", "20")["models"][0]["phases"]
    return f"{phases['evaluate']['p50_ms']:.3f} ms"


@step("tune, and its options")
def tune() -> str:
    run("tune", DIGITS, "--output", "schnell.json")
    return require_equal(find_best(run_json("run", DIGITS, SEVEN, "--settings", "schnell.json")), "7, 0.8716")


@step("contract")
def write_contract() -> str:
    run("contract", str(Path("models/edges.onnx")), "--set", "scaling=fit", "--output", "kanten 上.onnx")
    return str(run_json("info", "kanten 上.onnx")["inputs"][0]["kind"])


@step("isolated")
def isolate() -> str:
    return require_equal(find_best(run_json("run", DIGITS, SEVEN, "--isolated")), "7, 0.8716")


@step("a program: a stream of pictures, an engine in its own process, float16, a video")
def run_a_program() -> str:
    Path("programm 上.py").write_text(
        """
import cv2, numpy as np
from winml_py import *

model = LearningModel.load(r"models/digits.onnx")
with LearningModelSession(model) as session:
    many = [result.top_k(1)[0].index for result in session.evaluate_many(["samples/pictures/seven.png"] * 20)]
options = LearningModelSessionOptions()
options.isolation = "process"
with LearningModelSession(model, options=options) as session:
    alone = session.evaluate_features_async({"image": "samples/pictures/seven.png"}).get(60).top_k(1)[0].index
with LearningModelSession(LearningModel.load("halb 上.onnx")) as session:
    half = session.evaluate_features({"image": "samples/pictures/seven.png"}).top_k(1)[0].index
writer = cv2.VideoWriter("film 上.avi", cv2.VideoWriter.fourcc(*"MJPG"), 25, (64, 48))
for level in range(0, 250, 10):
    writer.write(np.full((48, 64, 3), level, np.uint8))
writer.release()
levels = [round(float(frame.software_bitmap.to_numpy().mean()), -1) for frame in VideoReader("film 上.avi")]
print(set(many), alone, half, levels == [float(level) for level in range(0, 250, 10)])
""",
        encoding="utf-8",
    )
    return require_equal(run("programm 上.py", program=sys.executable).strip(), "{7} 7 7 True")


@step("the frames of a video through a model")
def transform_a_video() -> str:
    run("run", str(Path("models/edges.onnx")), "film 上.avi", "--output", "kanten 上.mp4")
    return f"{Path('kanten 上.mp4').stat().st_size} bytes"


@contextmanager
def started(*words: str) -> Iterator[Any]:
    """A command that goes on until Ctrl-C."""
    process = start_program([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
    try:
        yield process
    finally:
        if process.poll() is None:
            for child in process.children(recursive=True):
                child.kill()
            process.kill()
        process.stdout.close()


def read_address(process: Any) -> Any:
    text = "".join(iter(process.stdout.readline, "}\n")) + "}"
    return urlsplit(json.loads(text)["address"])


@step("serve, a request, Ctrl-C")
def serve() -> str:
    with started("serve", DIGITS, "--port", "0", "--json") as service:
        address = read_address(service)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("POST", "/models/digits", Path(SEVEN).read_bytes())
        facts = json.loads(connection.getresponse().read())
        connection.close()
        interrupt(service)
        assert service.wait(30) == 0
    return require_equal(find_best(facts), "7, 0.8716")


@step("view, its page, Ctrl-C")
def view() -> str:
    with started("view", DIGITS, SEVEN, "--no-browser", "--json") as page:
        address = read_address(page)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("GET", address.path)
        text = connection.getresponse().read()
        connection.close()
        interrupt(page)
        assert page.wait(30) == 0
    assert b"<html" in text
    return f"{len(text)} bytes"


@step("Ctrl-C while a video is written")
def interrupt_a_video() -> str:
    Path("unterbrochen").mkdir()
    words = ["run", str(Path("models/edges.onnx")), "lang.avi", "--output", os.path.join("unterbrochen", "x.mp4")]
    code = "import cv2, numpy as np\n"
    code += "writer = cv2.VideoWriter('lang.avi', cv2.VideoWriter.fourcc(*'MJPG'), 25, (640, 480))\n"
    code += "for _ in range(400): writer.write(np.zeros((480, 640, 3), np.uint8))\nwriter.release()"
    run("-c", code, program=sys.executable)
    with started(*words) as process:
        end = time.monotonic() + 60
        while not os.listdir("unterbrochen") and time.monotonic() < end:
            time.sleep(0.02)
        assert os.listdir("unterbrochen"), "nothing was begun"
        interrupt(process)
        assert process.wait(30) != 0
    return require_equal(os.listdir("unterbrochen"), [])


@step("output to a file, and to another program", only_windows=True)
def redirect() -> str:
    """Both are in the system's code page, which lacks some of these characters."""
    Path("klassen.txt").write_text("\n".join(f"café 上 {digit}" for digit in range(10)), encoding="utf-8")
    command = f'""{PROGRAM}" run {DIGITS} {SEVEN} --labels klassen.txt --top-k 1'
    for target, lines in ((" > antwort.txt", 0), (" | findstr caf", 1)):
        done = subprocess.run(f'cmd /c {command}{target}"', capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == lines, done.stdout
    text = Path("antwort.txt").read_text(encoding=None)  # the system's, as other programs read it
    assert r"7  café \u4e0a 7" in text, text
    return ascii(text.splitlines()[-1].strip())


READ_CONSOLE = """
import ctypes, subprocess, sys
from ctypes import wintypes
kernel = ctypes.windll.kernel32
page, target, *command = sys.argv[1:]
kernel.SetConsoleCP(int(page)), kernel.SetConsoleOutputCP(int(page))
code = subprocess.run(command).returncode
kernel.GetStdHandle.restype = wintypes.HANDLE
screen, count, lines = wintypes.HANDLE(kernel.GetStdHandle(-11)), wintypes.DWORD(), []
for row in range(40):
    line = ctypes.create_unicode_buffer(81)
    kernel.ReadConsoleOutputCharacterW(screen, line, 80, wintypes.DWORD(row << 16), ctypes.byref(count))
    lines.append(line.value.rstrip())
with open(target, "w", encoding="utf-8") as file:
    print(code, *lines, sep="\\n", file=file)
"""


@step("a console, with each of two code pages", only_windows=True)
def write_to_consoles() -> str:
    flags = getattr(subprocess, "CREATE_NEW_CONSOLE", 0)
    words = [PROGRAM, "run", DIGITS, SEVEN, "--labels", "klassen.txt", "--top-k", "1"]
    for page in ("1252", "65001"):
        subprocess.run(
            [sys.executable, "-c", READ_CONSOLE, page, "console.txt", *words], creationflags=flags, check=True
        )
        code, *lines = Path("console.txt").read_text(encoding="utf-8").splitlines()
        assert code == "0", lines
        assert any("7  café 上 7" in line for line in lines), lines
    return ascii(next(line for line in lines if "caf" in line).strip())


@step("a program without a console", only_windows=True)
def run_without_a_console() -> str:
    """As pythonw starts it: no standard files."""
    code = (
        "import sys\nfrom winml_py import *\noptions = LearningModelSessionOptions()\noptions.isolation = 'process'\n"
    )
    code += "devices = LearningModelDevice.find_all()\n"
    code += "session = LearningModelSession(LearningModel.load('models/digits.onnx'), options=options)\n"
    code += "best = session.evaluate_features({'image': 'samples/pictures/seven.png'}).top_k(1)[0].index\n"
    code += "open('stumm.txt', 'w').write(f'{sys.stdout} {devices[0].hardware} {best}')\n"
    Path("stumm.py").write_text(code)
    subprocess.run([str(Path(sys.executable).with_name("pythonw.exe")), "stumm.py"], check=True, timeout=120)
    return require_equal(Path("stumm.txt").read_text(), "None cpu 7")


@step("names of files", only_windows=True)
def refuse_other_names() -> str:
    """Of a drive that is not there, a share, a device."""
    for name in (r"Q:\missing.onnx", r"\\server-that-is-not-there\share\x.onnx", "model?.onnx", "nul"):
        run("run", name, SEVEN, code=3)
    return "refused, in one line each"


def main() -> int:
    """Tries all steps."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="Erste Stunde ä 上海 ", ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        for name, attempt in STEPS:
            begin = time.monotonic()
            try:
                outcome, seen = "right", attempt()
            except (AssertionError, subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
                outcome, seen = (
                    "WRONG",
                    f"{type(error).__name__}: {drop_line_of_wine(str(error))}".encode(
                        "ascii", "backslashreplace"
                    ).decode(),
                )
                wrong += 1
            print(f"{outcome}  {name}: {seen} ({time.monotonic() - begin:.1f} s)", flush=True)
        os.chdir(Path(__file__).parent)
    print(f"{len(STEPS)} steps, {wrong} wrong, on {sys.platform}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
