"""Which models of one operator end the process that runs them? Makes odd ones, runs each in a process that may die.

    python tests/tools/attack.py --results found.jsonl [--count N] [--seed S] [--only OPERATOR] [--raw] [--isolated]
    python tests/tools/attack.py --results found.jsonl --count 0 --page docs/crashes.md

The results stand in the file, a line of JSON each; called again with it, it goes on behind the last one. A model that
takes too long counts as a hang, and memory has a limit. Needs a system that can fork.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import resource
import select
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` and `tools` are, for the program

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from helpers.paths import MODELS
from tools import attack_models
from tools.attack_models import Made
from tools.attack_page import page, summary
from winml_py.core.base.atomic_files import write_whole
from winml_py.core.onnx_file.header import read_header
from winml_py.core.onnx_file.nodes import read_graph
from winml_py.core.runtime.ort.faults import FoundFault, fact_of, find_fault, late_check

MEMORY = 4 << 30  # bytes that a child may have: of sizes gone wild the runtime then says that they are too large


def run_raw(made: Made) -> str:
    """What becomes of a model with ONNX Runtime alone."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(made.model, options, ["CPUExecutionProvider"], enable_fallback=0)
    except Exception:  # whatever the runtime says of it
        return "refused"
    say("evaluation")
    try:
        session.run(None, made.inputs)
    except Exception:
        return "failed"
    return "ran"


KEPT: list[Any] = []
"""A session that keeps the process of isolated engines."""


def run_ours(made: Made, is_isolated: bool = False) -> str:
    """What becomes of a model with winml_py."""
    import winml_py
    from winml_py import Isolation, LearningModel, LearningModelSession, LearningModelSessionOptions, WinMLError

    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 1
    options.batch_size_override = 0
    if is_isolated:
        options.isolation = Isolation("attack")  # for all models, until one ends it
        if not KEPT or KEPT[-1].is_lost:
            KEPT[:] = [LearningModelSession(LearningModel.load(MODELS / "invert.onnx"), None, options)]
    try:
        with LearningModel.load(made.model) as model, LearningModelSession(model, None, options) as session:
            say("evaluation")
            session.evaluate_features(made.inputs)
    except winml_py.errors.EngineLostError:
        return "ended its engine's process"
    except winml_py.errors.NotSupportedError as error:
        return "known fault" if "ends the process" in str(error) else "refused"
    except (WinMLError, TypeError, ValueError, OverflowError):
        return "refused"
    return "ran"


def fault_of(made: Made) -> tuple[FoundFault | None, bool]:
    """The known fault that a model has, and whether its graph and the shapes of its inputs show that."""
    graph = read_graph(made.model, read_header(made.model))
    check = late_check(graph)
    found = find_fault(graph)
    if found is None and check is not None:
        found = check.find_fault({name: fact_of(value) for name, value in made.inputs.items()})
    if found is not None:
        return found, True
    # As if the values were constants.
    arrays = {name: value for name, value in made.inputs.items() if isinstance(value, np.ndarray)}
    constants = {name: numpy_helper.from_array(array, name) for name, array in arrays.items()}
    inputs = [value for value in graph.inputs if value.name not in arrays]
    return find_fault(graph._replace(inputs=inputs, weights=graph.weights | constants)), False


def say(word: str) -> None:
    """Tells the parent how far it is."""
    os.write(OUT[0], f"{word}\n".encode())


OUT = [1]
"""Where a child says how far it is."""


def work(first: int, end: int, options: argparse.Namespace) -> None:
    """A child: makes and runs the models."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    for number in range(first, end):
        made = attack_models.make(options.seed, number, options.only)
        say(f"start {number} {made.name}")
        try:
            result = run_raw(made) if options.raw else run_ours(made, options.isolated)
            if result == "ran" and fault_of(made)[1]:
                result = "ran, with a known fault"
        except MemoryError:
            result = "refused"
        say(f"end {number} {result}")


class Child:
    """A process that runs models until it dies."""

    def __init__(self, first: int, end: int, options: argparse.Namespace) -> None:
        self.read, write = os.pipe()
        self.buffer = b""
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        self.pid = os.fork()
        if not self.pid:
            os.close(self.read)
            os.dup2(self.errors.fileno(), 2)
            OUT[0] = write
            status = 1
            try:
                work(first, end, options)
                status = 0
            except BaseException as error:  # a fault of this program: the parent tells it
                say(f"broken {' '.join(repr(error).split())[:300]}")
            os._exit(status)
        os.close(write)

    def line(self, seconds: float) -> str | None:
        """The next line; "" where the process has ended, None where it says nothing for so long."""
        while b"\n" not in self.buffer:
            if not select.select([self.read], [], [], seconds)[0]:
                return None
            data = os.read(self.read, 1 << 16)
            if not data:
                return ""
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def end(self, is_killed: bool = False) -> int:
        """Waits for the process; the signal that ended it, or 0."""
        if is_killed:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.read)
        self.errors.seek(max(self.errors.seek(0, os.SEEK_END) - 1000, 0))
        self.said = " ".join(self.errors.read().decode(errors="replace").split())[-600:]
        self.errors.close()
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def run(options: argparse.Namespace) -> None:
    """Runs the models that the file of results does not have yet."""
    way = "raw" if options.raw else "isolated" if options.isolated else "winml_py"
    key = {"seed": options.seed, "way": way, "runtime": onnxruntime.__version__, "only": options.only}
    attack_models.suite()  # all children have it then
    number = 0
    for row in rows(options.results):
        if all(row.get(name) == value for name, value in key.items()):
            number = max(number, row["number"] + 1)
    with open(options.results, "a", encoding="utf-8") as file:
        while number < options.count:
            number = run_child(number, options, key, file)


def run_child(number: int, options: argparse.Namespace, key: dict[str, Any], file: Any) -> int:
    """Starts one child, and writes what becomes of its models until it ends; the number of the next model."""
    child, name, stage = Child(number, options.count, options), "", "generation"
    while True:
        line = child.line(options.seconds)
        if line and line.startswith("broken"):
            raise RuntimeError(f"model {number} of seed {options.seed}: {line}")
        if not line:
            ended = child.end(is_killed=line is None)
            if line == "" and ended == 0:
                return number
            made = attack_models.make(options.seed, number, options.only)
            row = {"end": "hang" if line is None else "died", "signal": 0 if line is None else ended, "stage": stage}
            if row["end"] == "died":
                found, is_visible = fault_of(made)
                row["fault"] = found.fault.words if found else ""
                row |= {"visible": is_visible, "alone": dies_alone(number, options)}
            row |= {"said": child.said, "words": made.words, "model": base64.b64encode(made.model).decode()}
            write(file, key | {"number": number, "operator": made.name} | row)
            return number + 1
        word, _, rest = line.partition(" ")
        if word == "start":
            name, stage = rest.split(" ")[1], "creation"
        elif word == "evaluation":
            stage = "evaluation"
        else:
            write(file, key | {"number": number, "operator": name, "end": rest.partition(" ")[2]})
            number += 1


def dies_alone(number: int, options: argparse.Namespace) -> bool:
    """Whether a model ends a process that has run no other: those before it may have spoilt the memory."""
    child = Child(number, number + 1, options)
    line: str | None = " "
    while line:
        line = child.line(options.seconds)
    return child.end(is_killed=line is None) > 0


def write(file: Any, row: dict[str, Any]) -> None:
    file.write(json.dumps(row) + "\n")
    file.flush()


def rows(path: str) -> list[dict[str, Any]]:
    """What a file of results holds; a last line that was cut off counts for nothing."""
    found = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    found.append(json.loads(line))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--results", required=True, help="the file of results")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="an operator: Name, or domain:Name")
    parser.add_argument("--seconds", type=float, default=10, help="how long a model may take")
    parser.add_argument("--raw", action="store_true", help="with ONNX Runtime alone")
    parser.add_argument("--isolated", action="store_true", help="with sessions in processes of their own")
    parser.add_argument("--page", help="the page of known faults and of these results, to be written")
    options = parser.parse_args()
    run(options)
    found = rows(options.results)
    if options.page:
        write_whole(options.page, page(found).encode())
    print(f"onnx {onnx.__version__}, {platform.platform()}")
    for words in summary(found):
        print(words)
    unknown = [row for row in found if row["end"] == "died" and not row["fault"]]
    for row in unknown:
        print(f"no known fault: model {row['number']} of seed {row['seed']}, {row['operator']}, {row['stage']}")
        print(f"  {row['words']}")
    return bool(unknown)


if __name__ == "__main__":
    sys.exit(main())
