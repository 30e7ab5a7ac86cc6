"""`winml-py perf`: what load, bind and evaluate take."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

import click

from .. import __version__
from ..base.atomic_files import require_folder
from ..base.cpu_cores import usable_cores
from ..enums import Precision
from ..runtime.providers.plugins import runtime_version
from ..tools.perf import compare as comparing
from ..tools.perf import runner_files
from ..tools.perf.case import Case
from ..tools.perf.measure import Prepared, plain, prepare_together
from ..tools.perf.measurement import PHASES, Measurement
from .failures import OUTPUT, failures
from .style import emit, json_option, progress, say, show

_PRECISIONS = [precision.name.lower() for precision in Precision]


@click.command()
@click.argument("models", nargs=-1, type=click.Path(), metavar="[MODEL]...")
@click.option("-i", "--input", "inputs", multiple=True, metavar="[NAME=]FILE", help="Picture, folder, .npy, .csv.")
@click.option("--device", "devices", multiple=True, metavar="NAME", help="cpu (default), gpu or a name; repeat.")
@click.option("--engine", "engines", multiple=True, metavar="NAME", help="onnxruntime (default), auto, ...; repeat.")
@click.option("--precision", type=click.Choice(_PRECISIONS), default="auto", metavar="KIND", help="As for run.")
@click.option("--settings", type=click.Path(), help="What `winml-py tune --output` wrote.")
@click.option("-n", "--iterations", type=click.IntRange(1), help="Evaluations after the first.  [100]")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Evaluate so long instead.")
@click.option("--threads", type=click.IntRange(1), default=1, help="Threads that evaluate at once.")
@click.option("--concurrent-load", type=click.IntRange(1), metavar="N", help="Load on N threads at once.")
@click.option("--thread-interval", type=click.FloatRange(0), default=0.0, metavar="MS", help="Between their starts.")
@click.option("--compare", nargs=2, type=click.Path(), metavar="OLD NEW", help="Compare two saved runs; no MODEL.")
@click.option("--csv", "csv_file", type=click.Path(), metavar="FILE", help="Write WinMLRunner's table.")
@click.option("--per-iteration", type=click.Path(), metavar="FOLDER", help="Write its Summary.csv.")
@click.option("--save-tensors", type=click.Choice(["first", "all"]), help="Write outputs there, too.")
@json_option
def perf(
    models: tuple[str, ...],
    inputs: tuple[str, ...],
    devices: tuple[str, ...],
    engines: tuple[str, ...],
    precision: str,
    settings: str | None,
    iterations: int | None,
    seconds: float | None,
    threads: int,
    concurrent_load: int | None,
    thread_interval: float,
    compare: tuple[str, str] | None,
    csv_file: str | None,
    per_iteration: str | None,
    save_tensors: str | None,
    as_json: bool,
) -> None:
    """Measure each MODEL (or folder of them), phase by phase."""
    if compare:
        _compare(compare, as_json)
        return
    if not models:
        raise click.UsageError("Name a MODEL, or two saved runs: --compare OLD NEW.")
    if iterations is not None and seconds is not None:
        raise click.UsageError("Give --iterations or --seconds.")
    if save_tensors and not per_iteration:
        raise click.UsageError("--save-tensors wants a folder: --per-iteration FOLDER.")
    if settings and (engines or precision != "auto"):
        raise click.UsageError("--settings names engine and precision; leave --engine and --precision out.")
    cases = [
        Case(path, inputs, device, engine, Precision[precision.upper()], settings or "")
        for path in _files(models)
        for device in devices or ("cpu",)
        for engine in engines or ("onnxruntime",)
    ]
    if iterations is None and seconds is None:
        iterations = 100
    saver = _Saver(per_iteration, save_tensors, has_several=len(cases) > 1)
    with failures():
        if csv_file:
            require_folder(csv_file)
        prepared: Sequence[Prepared | None] = [None] * len(cases)
        if concurrent_load:
            prepared = prepare_together(cases, concurrent_load, thread_interval / 1e3)
        measured = []
        for case, ready in zip(cases, prepared, strict=True):
            with progress(f"{os.path.basename(case.model)} on {case.device}") as tell:
                ready = ready or Prepared(case)
                measured.append(ready.run(iterations, seconds, threads, tell, saver.receiver(ready)))
            ready.session.close()
    with failures(OUTPUT):
        if csv_file:
            runner_files.performance(csv_file, measured)
        if per_iteration:
            runner_files.iterations(per_iteration, measured)
    if as_json:
        emit(_facts(measured))
    else:
        for case_measured in measured:
            _print(case_measured)


class _Saver:
    """Writes the outputs of the first evaluation, or of all."""

    def __init__(self, folder: str | None, which: str | None, has_several: bool) -> None:
        self._folder, self._which, self._has_several, self._count = folder, which, has_several, 0

    def receiver(self, prepared: Prepared) -> Any:
        """What is to be called with each result, or None."""
        if self._folder is None or self._which is None:
            return None
        folder, hardware = self._folder, prepared.session.device.hardware
        self._count += 1
        if self._has_several:  # a folder for each, or they would write over each other's
            stem = os.path.splitext(os.path.basename(prepared.case.model))[0]
            folder = os.path.join(folder, f"{self._count}-{stem}")

        def receive(index: int, result: Any) -> None:
            if self._which == "first" and index > 0:
                return
            for name, value in result.outputs.items():
                array = plain(value)
                if array is not None:
                    with failures(OUTPUT):
                        runner_files.tensor(folder, name, hardware, index + 1, array)

        return receive


def _files(models: tuple[str, ...]) -> list[str]:
    found = []
    for path in models:
        if not os.path.isdir(path):
            found.append(path)
            continue
        names = sorted(name for name in os.listdir(path) if name.lower().endswith(".onnx"))
        if not names:
            raise click.UsageError(f"There is no .onnx file in the folder {path}.")
        found += [os.path.join(path, name) for name in names]
    return found


def _facts(measured: list[Measurement]) -> dict[str, Any]:
    host = {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": usable_cores(),
        "winml_py": __version__,
        "onnxruntime": runtime_version(),
    }
    return {
        "schema_version": comparing.SCHEMA,
        "kind": "perf",
        "host": host,
        "cases": [case.to_json() for case in measured],
    }


def _print(measured: Measurement) -> None:
    facts = measured.to_json()
    say(f"{measured.model} on {measured.device}: {measured.engine}, {measured.precision}", "bold")
    rows = []
    for phase in (phase for phase in PHASES if phase in facts["phases"]):
        figures = facts["phases"][phase]
        once = phase in ("load", "session")
        first = facts["first_ms"].get(phase)
        middle = ["", "", ""] if once else [_ms(figures[key]) for key in ("p50_ms", "p90_ms", "p99_ms")]
        cpu = _ms(figures["cpu_p50_ms"])
        rows.append([phase, "" if first is None else _ms(first), *middle, cpu])
    show(["ms", "first", "p50", "p90", "p99", "cpu"], rows)
    several = f" on {measured.threads} threads" if measured.threads > 1 else ""
    memory = facts["memory_mb"]
    peak = max(memory.values())
    say(f"{measured.iterations} evaluations{several}, {measured.rate:,.1f} a second")
    say(
        f"resident {memory['before']:.0f} MB before, {memory['session']:.0f} with the session, {peak:.0f} at most"
        + (f"; {measured.device_memory / 1e6:.0f} MB on the device" if measured.device_memory is not None else "")
    )
    say("")


def _ms(milliseconds: float | None) -> str:
    if milliseconds is None:
        return ""
    digits = 3 if milliseconds < 10 else 1
    return f"{milliseconds:,.{digits}f}"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _compare(files: tuple[str, str], as_json: bool) -> None:
    with failures():
        old, new = (comparing.load(path) for path in files)
    rows = comparing.compare(old, new)
    if as_json:
        emit({"schema_version": 1, "kind": "perf-comparison", "rows": rows})
        return
    if not rows:
        raise click.UsageError("The two runs have no case in common: model, device, engine, precision and threads.")
    cells = [[row["case"], row["phase"], _ms(row["old_ms"]), _ms(row["new_ms"]), _ratio(row["ratio"])] for row in rows]
    show(["case", "phase", "old ms", "new ms", "new / old"], cells, left=2)
