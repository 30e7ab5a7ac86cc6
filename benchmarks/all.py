"""Runs every benchmark on this machine, checks every target, and writes the tables of docs/performance.md.

    pip install -e '.[test,serve]' litserve
    python benchmarks/all.py [--only NAME ...]

It takes about 20 minutes on a quiet Linux machine of two cores. Each benchmark is a process of its own, whose figures
go to `figures.json` when it ends; one that fails does not stop the others. `--only` runs some again and keeps the
figures of the others, which must be from the same processor and the same versions.

The status is 1 if a benchmark failed: it could not run, or its ways gave different results. A missed target is shown
here and on the page, and does not change the status: a busy machine misses some. `gpu.py` is not among them: it needs a
GPU.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _page import FIGURES, PAGE, write_blocks

from winml_py.core.base import machine

MODELS = "densenet121 inception_v1 resnet50 shufflenet squeezenet PP-OCRv6_det_small PP-OCRv6_rec_small magika"

BENCHMARKS = {
    "overhead": "",
    "serve": "--rounds 4 --seconds 3",
    "isolation": "",
    "operators": "",
    "memory": "--processes 2 --rounds 4",
    "threads": "--rounds 5",
    "tune": "--rounds 5 --models inception_v1 shufflenet PP-OCRv6_det_small magika",
    "imports": "",
    "first_answer": "--pairs 15",
    "tensorize": "",
    "end_to_end": "",
    "resize": "--rounds 15",
    "built_in": "--rounds 9",
    "engines": f"--generations 3 --seconds 5 --models {MODELS}",
    "float16_speed": "--generations 3 --models inception_v1 resnet50 shufflenet squeezenet PP-OCRv6_det_small",
    "float16": "",
    "many": "",
    "video": "--rounds 5",
}
"""The arguments that keep each short: fewer models and rounds, never fewer turns for one way than for another."""

FEATURES = (
    *("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_fp16"),
    *("asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve"),
)
"""What kernels choose their arithmetic by, as Linux spells it."""

MOST_SECONDS = 900
"""A benchmark that takes longer has failed."""


def describe_machine() -> dict[str, Any]:
    """What figures on one page have in common."""
    import cv2

    facts = machine.read_processor_facts()
    flags = facts.get("flags", facts.get("Features", "")).split()
    packages = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino", "Pillow": "pillow", "numpy": "numpy"}
    versions = {"Python": platform.python_version()} | {name: version(package) for name, package in packages.items()}
    return {
        "processor": machine.read_processor_name(),
        "features": " ".join(name for name in FEATURES if name in flags),
        "cores": machine.count_usable_cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions | {"OpenCV": cv2.__version__},
    }


def start_from(here: dict[str, Any], is_everything: bool) -> dict[str, Any]:
    """What is known before the run; refuses to put figures of two machines on one page."""
    if is_everything or not FIGURES.exists():
        return {"machine": here, "benchmarks": {}}
    found: dict[str, Any] = json.loads(FIGURES.read_text())
    if found["machine"] != here:
        differing = [
            f"{key} {found['machine'][key]}, now {here[key]}" for key in here if found["machine"][key] != here[key]
        ]
        sys.exit(f"Expected the machine and the versions of figures.json: run all again. {'; '.join(differing)}")
    return found


def run(name: str, words: list[str]) -> dict[str, Any]:
    """The tables and targets of a benchmark, or how it failed; its seconds; and the date."""
    print(f"\n== {name} {' '.join(words)}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "figures.json")
        command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *words, "--json", str(path)]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            status = process.wait(MOST_SECONDS)
            found = {"failed": f"status {status}"} if status else json.loads(path.read_text())
        except subprocess.TimeoutExpired:
            found = {"failed": f"it took more than {MOST_SECONDS} s"}
        finally:  # what it started and left would disturb the next
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return found | {"seconds": round(time.monotonic() - started), "date": datetime.date.today().isoformat()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help="run these, and keep the others")
    names = parser.parse_args().only
    figures = start_from(describe_machine(), is_everything=names is None)
    for name in names or BENCHMARKS:
        figures["benchmarks"][name] = run(name, BENCHMARKS[name].split())
        FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(write_blocks(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
    failed = print_summary(figures["benchmarks"])
    if failed:
        print(f"To run them again: python benchmarks/all.py --only {' '.join(failed)}")
        sys.exit(1)


def print_summary(found: dict[str, Any]) -> list[str]:
    """Prints how each benchmark ended; returns those without figures."""
    print(f"\n{'benchmark':17}{'seconds':>8}{'targets met':>12}{'missed':>8}")
    for name in BENCHMARKS:
        if "tables" not in found.get(name, {}):
            print(f"{name:17}  no figures: {found.get(name, {}).get('failed', 'not run')}")
            continue
        missed = [bar["bar"] for bar in found[name]["bars"] if not bar["is_met"]]
        met = len(found[name]["bars"]) - len(missed)
        print(f"{name:17}{found[name]['seconds']:8}{met:12}{len(missed) or '':>8}  {'; '.join(missed)}".rstrip())
    print(f"{sum(result['seconds'] for result in found.values()) / 60:.0f} minutes")
    return [name for name in BENCHMARKS if "tables" not in found.get(name, {})]


if __name__ == "__main__":
    main()
