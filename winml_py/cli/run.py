"""`winml-py run`: evaluate models on pictures and arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import click

from ..core.base.messages import Facts, Progress
from ..core.contracts.labels import labels_of
from ..core.features.pictures import ImageFeatureValue
from ..core.features.ranking import is_row
from ..core.features.tensor import Tensor
from ..core.session.check import check_session, require_answers
from ..core.session.session import LearningModelSession
from ..errors import WinMLError
from ..inputs.answers import AUTO, KINDS, Classes, Finder, score_outputs, summarize
from ..inputs.files import generated, jobs, models_of, read
from ..inputs.model import EXAMPLE, Case, input_sizes, to_json
from ..inputs.tensor_picture import PictureSeen
from ..perf.placement import nodes_on_cpu
from .arguments import (
    contract_options,
    device_option,
    engine_option,
    force_option,
    json_option,
    labels_option,
    models_argument,
    output_option,
    precision_option,
    require_one_engine,
    settings_option,
    size_options,
)
from .failures import Failure, error_facts, naming, status_of
from .samples import check_facts, spell_check, tell_outdated, tell_problems
from .style import emit, progress, say, tell_assumed
from .summary import print_on_cpu, print_results
from .videos import folders_of, targets_of, video_of, write, write_video


@click.command()
@models_argument
@click.option("--top-k", type=click.IntRange(1), metavar="N", help="How many classes, of any row; else 5 of scores.")
@labels_option
@click.option(
    "--layout",
    type=click.Choice(KINDS),
    default=AUTO,
    metavar="KIND",
    help="What the outputs are: yolo, detr, masks, none, ...",
)
@click.option("--threshold", type=click.FloatRange(0, 1), metavar="SCORE", help="The lowest score of an object.")
@click.option("--example", is_flag=True, help="Evaluate on example inputs; no INPUT.")
@click.option("--check", is_flag=True, help="Does MODEL still give what its metadata say?")
@output_option("What to write; see above.")
@force_option
@device_option()
@engine_option()
@precision_option
@settings_option
@click.option("--isolated", is_flag=True, help="Evaluate in a process of its own, which a model may end.")
@click.option("--log-cpu-fallback", is_flag=True, help="List the nodes that a GPU leaves to the CPU.")
@click.option("--fast-decode", is_flag=True, help="Decode large JPEGs only as large as the model needs.")
@size_options
@contract_options
@json_option
def run(
    models: tuple[str, ...],
    inputs: tuple[str, ...],
    example: bool,
    check: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate each MODEL (or folder of them) on every INPUT.

    An input is a picture, a video, a folder or pattern ("*.jpg") of pictures, or an array in a .npy or .csv file; write
    several of one model as NAME=FILE.

    \b
    --output FILE.png    a picture that the model gives, or the input with
                         what was found drawn on it; of a video .mp4
    --output FILE.npz    all outputs as arrays
    --output FOLDER/     one file for each input, named like it
    """  # noqa: D301 - click wants the backspace itself
    require_one_engine(options["settings"], options["engine"], options["precision"])
    paths = [path for model in models for path in models_of(model)]
    if check and paths:
        if inputs or example or options["output"]:
            raise click.UsageError("--check evaluates the model's samples: leave INPUT, --example and --output out.")
        shown = [f"--{name.replace('_', '-')}" for name in Wanted._fields if options[name] not in (None, False, AUTO)]
        if shown:
            raise click.UsageError(f"--check shows no answers: leave {' and '.join(shown)} out.")
        _check_all(paths, {name: value for name, value in options.items() if name not in Wanted._fields}, as_json)
        return
    if example == bool(inputs):  # both, or neither: numbers that are made up must be asked for
        raise click.UsageError(
            (f"{' '.join(models)}: Name an INPUT after the model" if models else "Name a MODEL, and an INPUT after it")
            + " (a picture, a video, a folder of pictures, an array), or write --example, and no INPUT."
        )
    # Each option is a field of `Wanted` or of `Case`; `Case` refuses one that is neither.
    wanted = Wanted(**{name: options.pop(name) for name in Wanted._fields})
    case = {name: value for name, value in options.items() if value is not None}
    with progress("evaluating") as advance:
        results = evaluate_all(paths, inputs, wanted, case, advance)
    emit({"results": results.facts}, as_json, print_results)
    if results.code:
        raise click.exceptions.Exit(results.code)


def _check_all(paths: Sequence[str], options: Mapping[str, Any], as_json: bool) -> None:
    """Evaluates the samples of every model; ends the program where one of them is wrong."""
    results = Results(len(paths) == 1)
    for path in paths:
        with results.collecting({"model": path}), naming(path):
            case = Case(path, **{name: value for name, value in options.items() if value is not None})
            model = case.load()
            tell_outdated(path, model)
            answers = require_answers(model)
            with LearningModelSession(model, case.find_device(), case.options(model)) as session:
                results.facts.append({"model": path, "check": check_facts(check_session(session, answers))})
    emit({"results": results.facts}, as_json, _print_checks)
    code = results.code or any(not one["check"]["is_right"] for one in results.facts if "check" in one)
    if code:
        raise click.exceptions.Exit(int(code))


def _print_checks(facts: Facts) -> None:
    for result in facts["results"]:
        if "error" in result:
            say(result["error"]["message"], "bold red", is_error=True)
            continue
        check = result["check"]
        say(f"{result['model']}: {spell_check(check)}, on {check['device']} by {check['engine']}")
        tell_problems(check)


# The evaluations of `winml-py run`: every model on every input, and what is shown of each.


class Wanted(NamedTuple):
    """What the user wants of the results.

    Attributes:
        top_k: how many classes to show of each row of numbers; None for five of those that are scores of classes.
        labels: a file with their names, or None for the model's own.
        layout: what the outputs are.
        threshold: the lowest score of an object, or None for the makers' own.
        output: where to write, or None.
        log_cpu_fallback: whether to list the nodes that a GPU leaves to the CPU.
        fast_decode: as for `ImageFeatureValue.load`.
    """

    top_k: int | None
    labels: str | None
    layout: str
    threshold: float | None
    output: str | None
    log_cpu_fallback: bool
    fast_decode: bool


class Results:
    """What came of all evaluations.

    Args:
        is_one: whether there is one model and one input: its error ends the program. Otherwise, the others still run.

    Attributes:
        facts: of each evaluation, ready for JSON.
        code: the exit code of the first failure; 0 where there is none.
    """

    def __init__(self, is_one: bool) -> None:
        self.is_one, self.code = is_one, 0
        self.facts: list[Facts] = []

    @contextmanager
    def collecting(self, facts: Facts) -> Iterator[None]:
        """Notes the error of the block beside what it is about."""
        try:
            yield
        except (WinMLError, Failure) as error:
            if self.is_one:
                raise
            self.facts.append(facts | {"error": error_facts(error)})
            self.code = self.code or (error.exit_code if isinstance(error, Failure) else status_of(error))


def evaluate_all(
    paths: Sequence[str], inputs: Sequence[str], wanted: Wanted, case: Mapping[str, Any], advance: Progress
) -> Results:
    """Evaluates every model on every input.

    Args:
        paths: the models.
        inputs: files, and numbers in their place.
        wanted: what to show and to write.
        case: the other fields of a `Case`.
        advance: moves a progress bar.
    """
    results = Results(len(paths) == 1)
    for index, (path, output) in enumerate(zip(paths, folders_of(wanted.output, paths), strict=True)):
        with results.collecting({"model": path}):
            with naming(path):
                made = _ModelRun(Case(path, tuple(inputs), **case), wanted, output)
            results.is_one = len(paths) == len(made.todo) == 1
            made.run(results, _share(advance, index, len(paths)))
    return results


def _share(advance: Progress, before: int, count: int) -> Progress:
    """Moves the bar by the part that one of several models has of it."""
    return lambda done, what: advance(None if done is None else (before + done) / count, what)


class _ModelRun:
    """A model whose session is made, and what it is to be evaluated on."""

    def __init__(self, case: Case, wanted: Wanted, output: str | None) -> None:
        self._path, self._wanted, model = case.model, wanted, case.load()
        tell_outdated(case.model, model)
        self.todo = list(jobs(model, case.inputs)) if case.inputs else [(EXAMPLE, {})]
        self._sizes = case.sizes
        settings = case.options(model)
        if any(video_of(files) for _, files in self.todo):
            settings.intra_op_num_threads = 1  # frames are evaluated at the same time, each on a core
        self._make_session = partial(LearningModelSession, model, case.find_device(), settings)
        self._session = self._make_session()
        if wanted.log_cpu_fallback:
            _log_cpu_fallback(self._session, case)
        labels = labels_of(wanted.labels) if wanted.labels else model.labels
        self._classes = Classes(wanted.top_k, labels, score_outputs(model))
        self._finder = Finder(wanted.layout, wanted.threshold, labels)
        self._targets = targets_of(output, [label for label, _ in self.todo])

    def run(self, results: Results, tell: Progress) -> None:
        """Evaluates every input, and adds what came of it."""
        for index, ((label, files), target) in enumerate(zip(self.todo, self._targets, strict=True)):
            tell(index / len(self.todo), label)
            about = {"model": self._path, "input": label}
            with results.collecting(about), naming(*([label, *files.values()] if files else [self._path])):
                if self._session.is_lost:  # an input before this one ended the process of its engine
                    self._session = self._make_session()
                video = video_of(files)
                steps = partial(self._tell_frames, tell, label, index)
                facts = self._video(video, target, steps) if video else self._one(files, target)
                results.facts.append(about | facts)

    def _tell_frames(self, tell: Progress, label: str, before: int, done: int, total: int | None) -> None:
        """Moves the bar by the frames of a video, which is one of several inputs."""
        part = None if total is None else (before + done / total) / len(self.todo)
        tell(part, f"{label}: frame {done:,}" + ("" if total is None else f" of {total:,}"))

    def _video(self, path: str, target: str, tell: Callable[[int, int | None], object]) -> Facts:
        return write_video(self._session, path, target, self._finder, tell)

    def _one(self, files: Mapping[str, str], target: str) -> Facts:
        model = self._session.model
        values = read(model, files, self._wanted.fast_decode) if files else generated(model, self._sizes)
        features = self._sizes.applied(model.input_features)
        result = self._session.evaluate_features(values)
        outputs, found = result.outputs, self._finder.find(result)
        if self._wanted.labels and found is None:
            _require_labels(self._wanted.labels, self._classes.labels, outputs)
        drawn = None if found is None or found.draw is None else partial(found.draw, _only_picture(values))
        written = {"written": [write(target, outputs, drawn, PictureSeen.of(result, model, values))]} if target else {}
        summary = {name: summarize(name, value, self._classes) for name, value in outputs.items()}
        sizes = to_json(input_sizes(features, values if files else {}))
        if not files:
            tell_assumed(self._path, sizes)
        return {"sizes": sizes} | ({} if found is None else found.facts) | {"outputs": summary} | written


def _log_cpu_fallback(session: LearningModelSession, case: Case) -> None:
    if session.device.hardware == "cpu":
        raise click.UsageError("Nothing falls back from the CPU; name another --device.")
    left = [node for node in session.placement if node.provider == "CPUExecutionProvider"]
    say(f"{len(left)} of {len(session.placement)} nodes run on the CPU", is_error=True)
    print_on_cpu(nodes_on_cpu(case), is_error=True)


def _require_labels(path: str, labels: Sequence[str], outputs: Mapping[str, object]) -> None:
    """Refuses a file of labels that fits no output that is ranked."""
    rows = [value.to_numpy() for value in outputs.values() if isinstance(value, Tensor)]
    counts = sorted({row.size for row in rows if is_row(row)})
    if counts and len(labels) not in counts:
        wanted = " or ".join(map(str, counts))
        raise click.UsageError(
            f"{path}: It has {len(labels)} labels, and the model gives {wanted} scores. Write one label a line."
        )


def _only_picture(values: Mapping[str, object]) -> ImageFeatureValue:
    (picture,) = (value for value in values.values() if isinstance(value, ImageFeatureValue))
    return picture
