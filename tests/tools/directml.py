"""Runs the tests of GPUs on DirectML, on a software GPU under Wine: for a release, as CI has no time for it.

    python tests/tools/directml.py [TEST ...]

`.ci/directml` prepares what this needs, on Debian. Each test has a process of its own, because a session on DirectML
keeps some 500 MB until its process ends, also one of plain ONNX Runtime. Prints a table of the tests, and exits with 1
if one fails that is not known to fail, or the other way round.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
WHERE = ("tests/core/runtime/test_gpu.py", "tests/core/runtime/test_directml.py", "tests/winml")
MEMORY = 8 << 30
SECONDS = 240

NO_SHADER = "vkd3d's CreateComputePipelineState is E_FAIL: it cannot compile one of DirectML's shaders"
KNOWN = {
    "cpu_gives[edges]": NO_SHADER,
    "cpu_gives[shapes": NO_SHADER,
    "cpu_gives[upscale]": NO_SHADER,
    "test_discrete_fourier_transform": NO_SHADER,
    "what_the_device_has[False]": NO_SHADER,
    "test_pictures_bound_to_two_inputs": NO_SHADER,
    "test_grid_sample": "its many sessions keep more than 8 GB",
    "test_scalars_and_declared_shapes_that_are_wrong": "DirectML refuses an output whose declared shape is wrong",
}
"""Why a test fails here, by a part of its name."""


def run(program: str, *words: str) -> tuple[int, str]:
    """Runs pytest; returns its exit code and what it printed. It may take so much memory and time, and no more."""
    command = [program, "-m", "pytest", "-p", "no:cacheprovider", *words]
    process = psutil.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    end = time.monotonic() + SECONDS
    while True:
        try:
            printed, _ = process.communicate(timeout=1)
            return process.returncode, printed
        except subprocess.TimeoutExpired:
            family = [process, *process.children(recursive=True)]
            taken = sum(each.memory_info().rss for each in family if each.is_running())
            if taken > MEMORY or time.monotonic() > end:
                for each in reversed(family):
                    each.kill()
                process.communicate()
                return -1, f"E  it took {taken >> 20} MB and was ended"


def list_tests(program: str) -> list[str]:
    """The tests that ask for a GPU, but those of WebGPU."""
    _, printed = run(program, "--collect-only", "-q", "-m", "plugins and not webgpu", *WHERE)
    return [line.strip().replace("\\", "/") for line in printed.splitlines() if "::" in line]


def main() -> int:
    """Runs the tests that are named, or all."""
    program = subprocess.run([ROOT / ".ci" / "directml"], capture_output=True, text=True, check=True).stdout.strip()
    if not program:
        print("DirectML cannot be prepared on this machine")
        return 0
    counts, surprises = dict.fromkeys(("passed", "failed", "skipped"), 0), 0
    for test in sys.argv[1:] or list_tests(program):
        begin = time.monotonic()
        code, printed = run(program, "-q", "-rs", "--tb=short", test)
        outcome = "failed" if code else "passed" if " passed" in printed else "skipped"
        counts[outcome] += 1
        lines = re.findall(r"^(?:E  +|SKIPPED \[\d+\] )(.*)$", printed, re.MULTILINE)
        reason = lines[0][:150] if outcome != "passed" and lines else ""
        known = next((why for part, why in KNOWN.items() if part in test), "")
        surprises += (outcome == "failed") != bool(known)
        print(
            f"{outcome:7} {test.partition('tests/')[2]} ({time.monotonic() - begin:.0f} s) {known or reason}",
            flush=True,
        )
    print(*(f"{count} {outcome}" for outcome, count in counts.items()), f"{surprises} not as known", sep=", ")
    return min(surprises, 1)


if __name__ == "__main__":
    sys.exit(main())
