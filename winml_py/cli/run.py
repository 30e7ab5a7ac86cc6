"""`winml-py run`: evaluate a model on pictures and arrays."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..base.atomic_files import written_whole
from ..base.numpy_values import as_numpy
from ..errors import WinMLError
from ..features.pictures import ImageFeatureValue
from ..features.tensor import Tensor
from ..session.ranking import is_row
from ..session.session import LearningModelSession
from ..tools.input_files import jobs, read
from ..tools.perf.case import Case
from .arguments import contract_options, device_option, json_option, model_argument, precision_option, read_labels
from .failures import OUTPUT, Failure, failures, status_of, usage
from .findings import AUTO, KINDS, Finder
from .style import Advance, emit, progress, say
from .summary import print_results, summarize
from .videos import video_of, write_video

if TYPE_CHECKING:
    from PIL.Image import Image


@click.command()
@model_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--top-k", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="How many classes.")
@click.option(
    "--labels", type=click.Path(exists=True, dir_okay=False), help="The classes: a text file, or a config.json."
)
@click.option(
    "--layout",
    type=click.Choice(KINDS),
    default=AUTO,
    metavar="KIND",
    help="What the outputs are: yolo, detr, masks, none, ...",
)
@click.option("--threshold", type=click.FloatRange(0, 1), metavar="SCORE", help="The lowest score of an object.")
@click.option("--output", type=click.Path(), help="Where to write pictures or tensors; see above.")
@device_option
@click.option("--engine", default="onnxruntime", show_default=True, metavar="NAME", help="Or auto, openvino, ...")
@precision_option
@click.option("--log-cpu-fallback", is_flag=True, help="List the nodes that a GPU leaves to the CPU.")
@click.option("--fast-decode", is_flag=True, help="Decode large JPEGs only as large as the model needs.")
@contract_options
@json_option
def run(
    top_k: int,
    labels: str | None,
    layout: str,
    threshold: float | None,
    output: str | None,
    log_cpu_fallback: bool,
    fast_decode: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate MODEL on every INPUT.

    An input is a picture, a video, a folder or pattern ("*.jpg") of pictures, or an array in a .npy or .csv file; write
    several of one model as NAME=FILE.

    \b
    --output FILE.png    an effect model's picture, or the input with what
                         was found drawn on it; of a video .mp4
    --output FILE.npz    all outputs as arrays
    --output FOLDER/     one file for each input, named like it
    """  # noqa: D301 - click wants the backspace itself
    case = Case(**options)
    model = case.load()
    with usage():
        todo = list(jobs(model, case.inputs))
    settings = case.options()
    if any(video_of(files) for _, files in todo):
        settings.intra_op_num_threads = 1  # frames are evaluated at the same time, each on a core
    session = LearningModelSession(model, case.target(), settings)
    if log_cpu_fallback:
        _log_cpu_fallback(session)
    classes = read_labels(labels) if labels else session.model.labels
    finder = Finder(layout, threshold, classes)
    targets = _targets(output, [label for label, _ in todo])
    results: list[dict[str, Any]] = []
    code = 0
    with progress("evaluating") as advance:
        for (label, files), target in zip(todo, targets, strict=True):
            advance(len(results) / len(todo), label)
            video = video_of(files)
            try:
                if video:
                    results.append(
                        write_video(session, video, target, finder, _frames(advance, label, len(results), len(todo)))
                    )
                    continue
                values = read(session.model, files, fast_decode)
                result = session.evaluate_features(values)
                outputs, found = result.outputs, finder.find(result)
            except WinMLError as error:
                if len(todo) == 1:
                    raise
                code = code or status_of(error)
                results.append({"input": label, "error": str(error)})
                continue
            if labels and found is None:
                _require_labels(labels, classes, outputs)
            drawn = None if found is None or found.draw is None else partial(found.draw, _only_picture(values))
            written = {"written": [_write(target, outputs, drawn)]} if target else {}
            summary = {name: summarize(value, top_k, classes) for name, value in outputs.items()}
            facts = {} if found is None else found.facts
            results.append({"input": label} | facts | {"outputs": summary} | written)
    emit({"model": case.model, "results": results}, as_json, print_results)
    if code:
        raise click.exceptions.Exit(code)


def _frames(advance: Advance, label: str, before: int, inputs: int) -> Callable[[int, int | None], None]:
    """Moves the bar by the frames of a video, which is one of several inputs."""

    def tell(done: int, total: int | None) -> None:
        part = None if total is None else (before + done / total) / inputs
        advance(part, f"{label}: frame {done:,}" + ("" if total is None else f" of {total:,}"))

    return tell


def _log_cpu_fallback(session: LearningModelSession) -> None:
    if session.device.hardware == "cpu":
        raise click.UsageError("Nothing falls back from the CPU; name another --device.")
    left = [node for node in session.placement if node.provider == "CPUExecutionProvider"]
    say(f"{len(left)} of {len(session.placement)} nodes run on the CPU", is_error=True)
    for node in left:
        say(f"  {node.operator} {node.node}".rstrip(), is_error=True)


def _require_labels(path: str, labels: Sequence[str], outputs: Mapping[str, Any]) -> None:
    """Refuses a file of labels that fits no output that is ranked."""
    rows = [value.to_numpy() for value in outputs.values() if isinstance(value, Tensor)]
    counts = sorted({row.size for row in rows if is_row(row)})
    if counts and len(labels) not in counts:
        wanted = " or ".join(map(str, counts))
        raise click.UsageError(f"{path} has {len(labels)} labels, and the model gives {wanted} scores.")


def _targets(output: str | None, labels: list[str]) -> list[str]:
    """Where the outputs of each input go, or "". A file in a folder is named when it is known what it holds."""
    if output is None:
        return [""] * len(labels)
    if not output.endswith(("/", os.sep)) and not os.path.isdir(output):
        if len(labels) > 1:
            raise click.UsageError(f"There are {len(labels)} inputs; --output takes a folder then: {output}/")
        return [output]
    stems = [os.path.splitext(os.path.basename(label))[0] for label in labels]
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if twice is not None:
        raise click.UsageError(f"Two inputs are named {twice}, so their outputs would be one file.")
    with failures(OUTPUT):
        os.makedirs(output, exist_ok=True)
    return [os.path.join(output, f"{stem}.*") for stem in stems]


def _only_picture(values: Mapping[str, Any]) -> ImageFeatureValue:
    (picture,) = (value for value in values.values() if isinstance(value, ImageFeatureValue))
    return picture


def _write(target: str, outputs: Mapping[str, Any], draw: Callable[[], Image] | None) -> str:
    """Writes what was found on the picture, the first picture that was given, or all arrays; gives the file's path."""
    pictures = [value for value in outputs.values() if isinstance(value, ImageFeatureValue)]
    ending = "png" if pictures or draw else "npz"
    path = target.removesuffix("*") + ending if target.endswith(".*") else target
    with failures(OUTPUT):
        if path.endswith(".npz"):
            _save_arrays(path, {name: as_numpy(value) for name, value in outputs.items()})
        elif draw:
            ImageFeatureValue.from_pil(draw()).save(path)
        elif pictures:
            pictures[0].save(path)
        else:
            raise Failure(f"The model gives no picture that could be written to {path}; use a .npz file.", OUTPUT)
    return path


def _save_arrays(path: str, outputs: Mapping[str, Any]) -> None:
    """Writes what `numpy.load` reads. `numpy.savez` would refuse an output that is named like its parameters."""
    with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in outputs.items():
            if isinstance(array, np.ndarray):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    words = array.astype(str) if array.dtype == object else array
                    np.lib.format.write_array(member, words, allow_pickle=False)
