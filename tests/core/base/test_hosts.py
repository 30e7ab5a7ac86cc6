"""Child processes of programs that Python did not start, or whose standard library is patched; forks in C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.models import counting_loop
from helpers.paths import MODELS, PICTURES
from helpers.processes import drop_line_of_wine

pytestmark = pytest.mark.one_python

USES = f"""
from winml_py import LearningModel, LearningModelDevice, LearningModelSession, LearningModelSessionOptions, WinMLError

def make(isolation=None):
    options = LearningModelSessionOptions()
    options.isolation, options.intra_op_num_threads = isolation, 2
    return LearningModelSession(LearningModel.load({str(MODELS / "digits.onnx")!r}), None, options)

def classify(session):
    return session.evaluate_features({{"image": {str(PICTURES / "seven.png")!r}}}).top_k(1)[0].index

def say(*works):
    for work in works:
        try:
            print(work(), flush=True)
        except WinMLError as error:
            print(type(error).__name__, error, flush=True)

def isolate():
    return classify(make("process"))

def find():
    return LearningModelDevice.find_all()[0].hardware
"""


def run(program: str, *arguments: str | Path) -> list[str]:
    """The lines that a program prints; it may write nothing to the standard error."""
    environment = os.environ | {"ORT_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, drop_line_of_wine(done.stderr)) == (0, "")
    return done.stdout.splitlines()


FROZEN = """
import sys
sys.frozen, sys.executable, sys.prefix = True, sys.argv[1], "/no/such"
open(sys.argv[2], "a").write("started\\n")
import winml_py
if "alone" not in sys.argv:
    winml_py.freeze_support()
open(sys.argv[2], "a").write("went on\\n")
"""


@pytest.mark.posix("the program that starts itself is a shell script")
@pytest.mark.parametrize("calls_first", [True, False], ids=["calls freeze_support", "does not"])
def test_a_frozen_program(calls_first: bool, tmp_path: Path) -> None:
    program, code, notes = tmp_path / "program", tmp_path / "program.py", tmp_path / "notes"
    code.write_text(f"{FROZEN}{USES}\nsay(isolate, find, isolate, lambda: classify(make()))")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W ignore "{code}" "{program}" "{notes}" "$@"\n')
    program.chmod(0o700)
    words = [program] if calls_first else [program, "alone"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines, started = done.stdout.splitlines(), notes.read_text().splitlines()
    if calls_first:
        assert lines == ["7", "cpu", "7", "7"]
        assert started.count("went on") == 1
        assert started.count("started") >= 4
        return
    assert started == ["started", "went on"]
    assert lines[3] == "7"
    for line in lines[:3]:
        assert line.startswith("NotSupportedError Finding devices and isolating engines requires child processes, ")
        assert "call winml_py.freeze_support() first" in line


@pytest.mark.parametrize("name", ["uwsgi", "host.exe", ""])
def test_a_program_that_embeds_python(name: str, tmp_path: Path) -> None:
    """It has given `sys.executable` its own name; the Python of its environment is started."""
    where = str(tmp_path / name) if name else ""
    assert run(f"import sys; sys.executable = {where!r}\n{USES}\nsay(isolate, find)") == ["7", "cpu"]


def test_a_program_that_embeds_python_without_an_environment(tmp_path: Path) -> None:
    prefix = f"import sys; python, sys.executable, sys.prefix = sys.executable, {str(tmp_path / 'host')!r}, '/no/such'"
    named = "import multiprocessing; multiprocessing.set_executable(python)"
    refused, answer = run(f"{prefix}\n{USES}\nsay(isolate)\n{named}\nsay(isolate)")
    assert refused.startswith("NotSupportedError ")
    assert refused.endswith("to multiprocessing.set_executable().")
    assert answer == "7"


FORKED = """
import ctypes, os, sys
sys.orig_argv = []  # as where a program in C starts Python
session = make()
classify(session)
children = []
for work in (lambda: say(lambda: classify(session)), lambda: say(lambda: classify(make())), lambda: None):
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        work()
        sys.exit()  # which does not wait for threads of the parent
    assert os.waitpid(child, 0)[1] == 0
say(lambda: classify(session))
"""


@pytest.mark.posix("Windows has no fork")
def test_forks_that_python_does_not_see() -> None:
    refused, *answers = run(f"{USES}\n{FORKED}")
    assert refused.startswith("IllegalCallError The session was created in process ")
    assert answers == ["7", "7"]


PATCHED = """
import sys, threading
from winml_py.errors import EngineLostError, EvaluationTimeoutError

say(isolate, find)
session = make("process")
answers = []
threads = [threading.Thread(target=lambda: answers.append(classify(session))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(answers)
for isolation in (None, "process"):
    options = LearningModelSessionOptions()
    options.isolation = isolation
    endless = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
    try:
        endless.evaluate_features({"count": [1 << 62], "x": [1.0]}, timeout=0.2)
    except EvaluationTimeoutError:
        print("stopped")
"""


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_a_patched_standard_library(library: str, tmp_path: Path) -> None:
    """Child processes work, and time limits hold, although the threads of Python are those of the library."""
    pytest.importorskip(library)
    model = tmp_path / "endless.onnx"
    model.write_bytes(counting_loop())
    patch = {"gevent": "from gevent.monkey import patch_all; patch_all()"}.get(
        library, "import eventlet; eventlet.monkey_patch()"
    )
    assert run(f"{patch}\n{USES}\n{PATCHED}", model) == ["7", "cpu", "[7, 7, 7, 7]", "stopped", "stopped"]
