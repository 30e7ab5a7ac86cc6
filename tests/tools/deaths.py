"""Do isolated sessions survive the deaths of their engines' processes, and is nothing left behind?

    python tests/tools/deaths.py [--count 1000] [--threads 8] [--seed 0]

Threads make isolated sessions and evaluate them, and each process is ended by a signal at a moment that the seed
decides: while it starts, compiles or evaluates, or between evaluations. Each death must be an `EngineLostError` that
names the signal, the session must say that it is lost, and the next one must give the right numbers. In the end the
processes, open files, threads, shared memory and temporary files of this process are counted.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers.paths import MODELS
from helpers.reference import run_raw
from winml_py import LearningModel, LearningModelBinding, LearningModelSession
from winml_py import LearningModelSessionOptions as Options
from winml_py.core.base import child_process
from winml_py.core.runtime.isolated import isolated_engine
from winml_py.errors import EngineLostError

SIGNALS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)

DIGITS = str(MODELS / "digits.onnx")
IMAGE = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)


class Count:
    """What is open in this process, and what it could leave behind."""

    def __init__(self) -> None:
        gc.collect()
        self.files = len(os.listdir("/proc/self/fd"))
        self.threads = threading.active_count()
        self.children = sorted(_children())
        self.shared = sorted(path.name for path in Path("/dev/shm").glob("winml*"))
        self.temporary = sorted(path.name for path in Path(tempfile.gettempdir()).glob("winml-py-*"))
        self.mappings = sum("winml-py" in line for line in Path("/proc/self/maps").read_text().splitlines())

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in vars(self).items())


def _children() -> list[int]:
    """The processes that this one has started, and nobody has waited for."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(status.parent.name))
    return found


def die(number: int, expected: np.ndarray, chance: random.Random) -> str:
    """One session's life; gives where it died.

    Raises:
        AssertionError: it gave wrong numbers, or did not say that it was lost.
    """
    options = Options()
    options.isolation = "process"
    how, is_early = chance.choice(SIGNALS), chance.random() < 0.2
    started: Queue[int] = Queue()
    STARTED.queue = started
    killer = threading.Thread(target=kill, args=(started, how, chance.uniform(0, 0.5 if is_early else 0.02)))
    if is_early:
        killer.start()
    try:
        session = LearningModelSession(LearningModel.load(DIGITS), options=options)
    except EngineLostError as error:
        require(how.name in str(error), str(error))
        return "while it compiled"
    with session:
        binding = LearningModelBinding(session)
        binding.bind("image", IMAGE)
        if not is_early:
            killer.start()
        try:
            while True:
                for result in (session.evaluate(binding), session.evaluate_features({"image": IMAGE})):
                    np.testing.assert_array_equal(result.outputs["probabilities"].to_numpy(), expected)
        except EngineLostError as error:
            killer.join()
            require(how.name in str(error) and session.is_lost, str(error))
            return "before the request" if "before" in str(error) else "while it evaluated"


def require(is_right: bool, words: str) -> None:
    if not is_right:
        raise AssertionError(words)


STARTED = threading.local()
"""Where each thread's processes are told of, before there is a session."""


class Told(child_process.ChildProcess):
    """A process whose number is told as soon as it has one."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        STARTED.queue.put(self.number)


def kill(started: Queue[int], how: signal.Signals, seconds: float) -> None:
    """Waits for the process, and so many seconds more, and ends it."""
    number = started.get()
    time.sleep(seconds)
    os.kill(number, how)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="deaths")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    isolated_engine.ChildProcess = Told  # type: ignore[misc]
    expected = run_raw(DIGITS, {"image": IMAGE})["probabilities"]
    places = [die(-1, expected, random.Random(options.seed))]  # what a first session loads is not left behind
    before, started = Count(), time.monotonic()
    with ThreadPoolExecutor(options.threads) as pool:
        lives = (
            pool.submit(die, number, expected, random.Random(f"{options.seed}/{number}"))
            for number in range(options.count)
        )
        places = [life.result() for life in list(lives)]
    after = Count()
    print(
        f"{len(places)} deaths in {options.threads} threads and {time.monotonic() - started:.0f} s, seed {options.seed}"
    )
    for place, count in Counter(places).most_common():
        print(f"  {count} {place}")
    print(f"before: {before}\nafter:  {after}")
    if str(before) != str(after):
        raise SystemExit("Something was left behind.")
    print("Nothing was left behind.")


if __name__ == "__main__":
    main()
