"""`winml-py run`: evaluate a model on pictures and arrays."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import click
import numpy as np

from ..base.atomic_files import written_whole
from ..enums import Precision
from ..errors import WinMLError
from ..features.pictures import ImageFeatureValue
from ..features.tensor import Tensor
from ..session.device import LearningModelDevice
from ..session.model import LearningModel
from ..session.options import LearningModelSessionOptions
from ..session.session import LearningModelSession
from ..tools.input_files import jobs, read
from .failures import OUTPUT, Failure, failures, status_of, usage
from .style import console, emit, json_option
from .summary import print_results, summarize

_PRECISIONS = [precision.name.lower() for precision in Precision]


@click.command()
@click.argument("model", type=click.Path())
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--top-k", type=click.IntRange(1), default=5, show_default=True, help="How many classes.")
@click.option("--labels", type=click.Path(exists=True, dir_okay=False), help="A text file with one class a line.")
@click.option("--output", type=click.Path(), help="Where to write pictures or tensors; see above.")
@click.option("--device", default="cpu", show_default=True, help="Or gpu, or a name.")
@click.option("--engine", default="onnxruntime", show_default=True, help="Or auto, openvino.")
@click.option(
    "--precision", type=click.Choice(_PRECISIONS), default="auto", metavar="KIND", help="auto, float32, half."
)
@click.option("--log-cpu-fallback", is_flag=True, help="List what a GPU leaves to the CPU.")
@click.option("--fast-decode", is_flag=True, help="Decode large JPEGs only as large as the model needs.")
@json_option
def run(
    model: str,
    inputs: tuple[str, ...],
    top_k: int,
    labels: str | None,
    output: str | None,
    device: str,
    engine: str,
    precision: str,
    log_cpu_fallback: bool,
    fast_decode: bool,
    as_json: bool,
) -> None:
    """Evaluate MODEL on every INPUT: a picture file, a folder of them, or an array in a .npy or .csv file.

    A model with several inputs is evaluated once, on inputs written as NAME=FILE.

    \b
    --output FILE.png    the picture that an effect model gives (.jpg, .webp, ...)
    --output FILE.npz    all outputs as arrays
    --output FOLDER/     one file for each input, named like it
    """  # noqa: D301 - click wants the backspace itself
    with failures():
        session = _session(model, device, engine, precision)
    with usage():
        todo = list(jobs(session.model, inputs))
    if log_cpu_fallback:
        _log_cpu_fallback(session)
    names = _read_labels(labels)
    writer = _Writer(output, [label for label, _ in todo])
    results: list[dict[str, Any]] = []
    code = 0
    for label, features in _with_progress(todo):
        try:
            outputs = session.evaluate_features(read(session.model, features, fast_decode)).outputs
        except WinMLError as error:
            code = code or status_of(error)
            results.append({"input": label, "error": str(error)})
            if len(todo) == 1:
                raise Failure(str(error), code) from error
            continue
        with failures(OUTPUT):
            written = writer.write(label, outputs)
        summary = {name: summarize(value, top_k, names) for name, value in outputs.items()}
        results.append({"input": label, "outputs": summary} | ({"written": written} if written else {}))
    if as_json:
        emit({"schema_version": 1, "model": model, "results": results})
    else:
        print_results(results)
    if code:
        raise click.exceptions.Exit(code)


def _session(model: str, device: str, engine: str, precision: str) -> LearningModelSession:
    options = LearningModelSessionOptions()
    options.batch_size_override = 0
    options.engine, options.precision = engine, Precision[precision.upper()]
    chosen = LearningModelDevice() if device == "cpu" else LearningModelDevice.find(device)
    return LearningModelSession(LearningModel.load(model), chosen, options)


def _log_cpu_fallback(session: LearningModelSession) -> None:
    if session.device.hardware == "cpu":
        raise click.UsageError("Nothing falls back from the CPU; name another --device.")
    left = [node for node in session.placement if node.provider == "CPUExecutionProvider"]
    click.echo(f"{len(left)} of {len(session.placement)} nodes run on the CPU", err=True)
    for node in left:
        click.echo(f"  {node.operator} {node.node}".rstrip(), err=True)


def _read_labels(path: str | None) -> list[str]:
    if path is None:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file]
    except UnicodeDecodeError as error:
        raise click.UsageError(f"The labels in {path} are not UTF-8 text.") from error


def _with_progress(jobs: list[tuple[str, dict[str, str]]]) -> Iterable[tuple[str, dict[str, str]]]:
    if len(jobs) < 3:
        return jobs
    from rich.progress import track

    screen = console(is_error=True)
    return track(jobs, "Evaluating", console=screen, transient=True, disable=not screen.is_terminal)


class _Writer:
    """Writes the outputs of each evaluation to the file or folder the caller named."""

    def __init__(self, target: str | None, labels: list[str]) -> None:
        self._target = target
        self._is_folder = target is not None and (target.endswith(("/", os.sep)) or os.path.isdir(target))
        if target is None:
            return
        if self._is_folder:
            stems = [_stem(label) for label in labels]
            twice = next((stem for stem in stems if stems.count(stem) > 1), None)
            if twice is not None:
                raise click.UsageError(f"Two inputs are named {twice}, so their outputs would be one file.")
            with failures(OUTPUT):
                os.makedirs(target, exist_ok=True)
        elif len(labels) > 1:
            raise click.UsageError(f"There are {len(labels)} inputs; --output takes a folder then: {target}/")

    def write(self, label: str, outputs: Mapping[str, Any]) -> list[str]:
        if self._target is None:
            return []
        pictures = {name: value for name, value in outputs.items() if isinstance(value, ImageFeatureValue)}
        if self._is_folder:
            path = os.path.join(self._target, _stem(label) + (".png" if pictures else ".npz"))
        else:
            path = self._target
        if path.endswith(".npz"):
            _save_arrays(path, outputs)
        elif not pictures:
            raise Failure(f"The model gives no picture that could be written to {path}; use a .npz file.", OUTPUT)
        else:
            next(iter(pictures.values())).save(path)
        return [path]


def _stem(label: str) -> str:
    return os.path.splitext(os.path.basename(label))[0]


def _save_arrays(path: str, outputs: Mapping[str, Any]) -> None:
    arrays = {
        name: value.to_numpy() for name, value in outputs.items() if isinstance(value, (Tensor, ImageFeatureValue))
    }
    with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, value in arrays.items():  # numpy.savez refuses an output that is named like its parameters
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _plain(value), allow_pickle=False)


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(str) if array.dtype == object else array
