"""`winml-py run`: evaluate a model on pictures, videos and arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import click

from .._examples import list_inputs
from .._interpretation import (
    AUTO,
    KINDS,
    NUMBERS_SHOWN,
    Classes,
    VisionInterpreter,
    describe_answer,
    find_channel_order,
)
from ..core.base.machine import count_usable_cores
from ..core.base.messages import Facts, Progress
from ..core.base.winrt_object import private_state
from ..core.cache import make_key
from ..core.contracts.labels import labels_of
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor import Tensor
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.result import LearningModelEvaluationResult, find_best_classes
from ..core.session.session import LearningModelSession
from ..errors import WinMLError
from .arguments import (
    Setup,
    force_option,
    inputs_argument,
    is_forced,
    isolated_option,
    json_option,
    labels_option,
    model_argument,
    output_option,
    setup_options,
)
from .evaluations import Evaluation, evaluate_all, find_video, list_evaluations, skip_answered
from .failures import OUTPUT, Failure, convert_errors, describe_error, prefix_errors
from .files import assign_files, read_files
from .style import emit, format_number, print_line, print_table, show_progress, to_json
from .videos import list_targets, write_outputs, write_video


@click.command()
@model_argument
@inputs_argument
@click.option("--top-k", type=click.IntRange(1), metavar="N", help="Print the best N of each row of scores.  [5]")
@labels_option
@click.option(
    "--layout",
    type=click.Choice(KINDS),
    default=AUTO,
    metavar="KIND",
    help="Layout of the outputs: yolo, detr, masks, none, ...",
)
@click.option("--threshold", type=click.FloatRange(0, 1), metavar="SCORE", help="Hide objects with a lower score.")
@click.option("--record", is_flag=True, help="Write inputs and answers next to MODEL, for --check.")
@click.option("--check", is_flag=True, help="Compare the answers with those next to MODEL.")
@output_option("The file or folder to write; see above.")
@output_option("Write JSON lines to FILE, continuing after existing ones.", "--resume", "FILE")
@force_option
@setup_options
@isolated_option
@json_option
@click.option("--json-lines", is_flag=True, help="Print one JSON object per input or frame.")
def run(
    model: str,
    inputs: tuple[str, ...],
    top_k: int | None,
    labels: str | None,
    layout: str,
    threshold: float | None,
    record: bool,
    check: bool,
    output: str | None,
    setup: Setup,
    isolated: bool,
    as_json: bool,
    json_lines: bool,
    resume: str | None,
) -> None:
    """Evaluate MODEL on every INPUT.

    An input can be a picture, a video, a folder of pictures, a pattern ("*.jpg"), or an array in a .npy or .csv
    file. If the model has several inputs, write NAME=FILE.

    \b
    --output FILE.png    the model's output picture, or the input with the
                         objects drawn on it; for a video, .mp4
    --output FILE.npz    all outputs as arrays
    --output FOLDER/     one file per input, with the input's name
    """  # noqa: D301 - click wants the backspace itself
    setup = replace(setup, isolated=isolated)
    has_lines = json_lines or resume is not None
    if check:
        if inputs or output or record or labels or top_k or threshold is not None or layout != AUTO or has_lines:
            raise click.UsageError(
                "--check evaluates the samples next to MODEL. Omit INPUT and the options for printing or writing."
            )
        _check(model, setup, as_json)
        return
    if not inputs:
        raise click.UsageError(
            f"{model}: Expected an INPUT after the model: a picture, a video, a folder of pictures or an array. To "
            "evaluate example inputs, use winml-py perf."
        )
    if as_json and has_lines:
        raise click.UsageError("--json prints one document. Omit it, or omit --json-lines and --resume.")
    if record and (has_lines or replace(setup, isolated=False) != Setup()):
        raise click.UsageError(
            "--record evaluates on the CPU. Omit --json-lines, --device and other evaluation options."
        )
    results, code, file = [], 0, None
    with show_progress("evaluating", is_shown=resume is not None or not json_lines) as advance:
        with prefix_errors(model, *inputs, labels, setup.settings):
            loaded = setup.load(model)
            named = list(assign_files(loaded, inputs))
            options = setup.make_options(loaded)
            has_many = len(named) >= count_usable_cores() or any(find_video(files) for _, files in named)
            if has_many and not options.isolation and not setup.settings:
                options.intra_op_num_threads = 1  # they are evaluated concurrently, one per core
            make_session = partial(LearningModelSession, loaded, LearningModelDevice.find(setup.device), options)
            first_session = make_session()
            names = labels_of(labels) if labels else loaded.labels
            classes = Classes(top_k, names)
            interpreter = VisionInterpreter(layout, threshold, names)
            positions = {input_name: index for index, (input_name, _) in enumerate(named)}
            targets = list_targets(output, [input_name for input_name, _ in named])
            more = {}
            if resume:
                contracts = {name: contract.to_metadata() for name, contract in loaded.contracts.items()}
                contents = private_state(loaded).open().compute_digest(), contracts, names
                same_options = replace(setup, isolated=False).make_options(loaded)
                paths = [os.path.abspath(path) for path in inputs]
                more["run"] = make_key(contents, setup.device, same_options, top_k, layout, threshold, output, paths)
            evaluations = list_evaluations(loaded, model, zip(named, targets, strict=True), more)
        if resume:
            with convert_errors(OUTPUT):
                file = click.get_current_context().with_resource(click.open_file(resume, "a", encoding="ascii"))
                evaluations, code = skip_answered(resume, evaluations)
        for session, evaluation, result in evaluate_all(first_session, make_session, evaluations):
            name = _name(evaluation.facts)
            index = positions[evaluation.facts["input"]]
            advance(index / len(named), name)
            try:
                with prefix_errors(name, *evaluation.files.values()):
                    if isinstance(result, WinMLError):
                        raise result
                    if result is None:
                        frames = partial(_advance_by_frames, advance, name, index, len(named))
                        facts = write_video(session, evaluation.video, evaluation.target, interpreter, frames)
                    else:
                        facts = _describe(session, evaluation, result, classes, interpreter, labels)
            except Failure as error:
                if len(named) == 1 and not has_lines and "frame" not in evaluation.facts:
                    raise
                facts = {"error": describe_error(error)}
                code = code or error.exit_code
                if has_lines:
                    print_line(error.format_message(), is_error=True)
            facts = evaluation.facts | facts
            if has_lines:
                with convert_errors(OUTPUT if resume else None):
                    click.echo(to_json(facts, is_line=True), file)
            else:
                results.append(facts)
    if record and not code:
        with prefix_errors(model, *inputs):
            folders = _record(model, loaded, [files for _, files in named])
        for facts, folder in zip(results, folders, strict=True):
            facts["written"] = [*facts.get("written", ()), folder]
    if not has_lines:
        emit({"results": results}, as_json, _print_results)
    if code:
        raise click.exceptions.Exit(code)


def _describe(
    session: LearningModelSession,
    evaluation: Evaluation,
    result: LearningModelEvaluationResult,
    classes: Classes,
    interpreter: VisionInterpreter,
    labels: str | None,
) -> Facts:
    """Describes a result, and writes it."""
    outputs = result.outputs
    pictures = evaluation.pictures.values()
    finding = interpreter.interpret(result, pictures)
    if labels and finding is None:
        _require_labels(labels, classes.labels, outputs)
    facts = describe_answer(list_inputs(session), evaluation, outputs, classes)
    facts |= {} if finding is None else finding.facts
    if evaluation.target:
        draw = None
        if finding is not None and finding.draw is not None:
            (picture,) = (value for value in pictures if isinstance(value, ImageFeatureValue))
            draw = partial(finding.draw, picture)
        order = find_channel_order(session.model, evaluation)
        facts["written"] = [write_outputs(evaluation.target, outputs, draw, order)]
    return facts


def _name(facts: Facts) -> str:
    """The input of a result, and the number of its frame in a video."""
    return f"{facts['input']}, frame {facts['frame']:,}" if "frame" in facts else str(facts["input"])


def _advance_by_frames(
    advance: Progress, input_name: str, before: int, count: int, done: int, total: int | None
) -> None:
    """Advances the bar by the frames of a video, which is one of several inputs."""
    of = f" of {total:,}" if total else ""
    advance((before + done / total) / count if total else None, f"{input_name}: frame {done:,}{of}")


def _require_labels(path: str, labels: Sequence[str], outputs: Mapping[str, object]) -> None:
    """Refuses a file of labels that fits no ranked output."""
    rows = [value.to_numpy() for value in outputs.values() if isinstance(value, Tensor)]
    counts = sorted({row.size for row in rows if find_best_classes(row, 1)})
    if counts and len(labels) not in counts:
        wanted = " or ".join(map(str, counts))
        raise click.UsageError(f"{path}: Expected {wanted} labels, one per line, got {len(labels)}.")


# How outputs and the objects found in a picture are printed.


def _print_results(facts: Facts) -> None:
    for result in facts["results"]:
        if "error" in result:
            print_line(result["error"]["message"], "bold red", is_error=True)
            continue
        print_line(_name(result), "bold")
        outputs = {} if _print_findings(result) else result["outputs"]
        for name, output in outputs.items():
            if "top" in output:
                print_line(f"  {name}")
                rows = [
                    [str(best["index"]), best.get("label", ""), format_number(best["value"], 4)]
                    for best in output["top"]
                ]
                print_table(rows, align="rlr", indent=4)
            elif output["kind"] == "sequence" and len(output["value"]) > 1:
                print_line(f"  {name}")
                for element in output["value"]:
                    print_line(f"    {_format(element)}")
            else:
                print_line(f"  {name}: {_format(output)}")
        for path in result.get("written", []):
            print_line(f"  written to {path}")


def _format(output: Facts) -> str:
    if output["kind"] == "image":
        return f"a picture of {output['width']}x{output['height']}"
    if output["kind"] == "video":
        return f"a video of {output['width']}x{output['height']}, {output['frames']:,} frames"
    if output["kind"] == "sequence":
        return "; ".join(map(_format, output["value"])) or "an empty list"
    if output["kind"] == "map":
        return _format_map(output["value"])
    if "top" in output:  # of an element of a sequence
        return ", ".join(f"{best.get('label') or best['index']} {best['value']:.4g}" for best in output["top"])
    head = f"{output['type']} of {'x'.join(map(str, output['shape']))}"
    if "values" in output:
        numbers = ", ".join(map(_format_element, output["values"])) or "nothing"
        is_row = len(output["values"]) == max(output["shape"], default=1)
        return numbers if is_row else f"{head}: {numbers}"
    if "min" in output:
        return f"{head}, {output['min']:.4g} to {output['max']:.4g}, mean {output['mean']:.4g}"
    return head


def _format_map(items: Mapping[str, object]) -> str:
    """Keys and values; of many numbers, only the highest."""
    pairs = list(items.items())
    if len(pairs) > NUMBERS_SHOWN and all(isinstance(value, (int, float)) for value in items.values()):
        pairs = sorted(pairs, key=lambda pair: pair[1], reverse=True)  # type: ignore[arg-type, return-value]
    shown = [f"{key} {_format_element(value)}" for key, value in pairs[:NUMBERS_SHOWN]]
    more = len(pairs) - len(shown)
    return ", ".join(shown) + (f", and {more:,} more" if more else "") if pairs else "an empty map"


def _format_element(element: object) -> str:
    return f"{element:.6g}" if isinstance(element, float) else str(element)


def _print_findings(result: Facts) -> bool:
    """Prints objects or regions; returns whether there are any."""
    if "objects_error" in result:
        print_line(f"  objects: {result['objects_error']}", is_error=True)
    if "objects" in result:
        if not result["objects"]:
            print_line("  no objects")
        rows = []
        for detection in result["objects"]:
            edges = [str(round(edge)) for edge in detection["box"]]
            score = format_number(detection["score"])
            rows.append([str(detection["index"]), detection.get("label", ""), score, *edges])
        print_table(rows, ("class", "", "score", "left", "top", "right", "bottom"), "rlrrrrr", indent=4)
    if "regions" in result:
        rows = [
            [str(region["index"]), region.get("label", ""), f"{region['share']:.1%}"] for region in result["regions"]
        ]
        print_table(rows, ("class", "", "share"), "rlr", indent=4)
    return "objects" in result or "regions" in result


# The samples next to a model: what `--record` writes, and what `--check` evaluates and prints.


def _record(path: str, model: LearningModel, evaluations: Iterable[Mapping[str, str]]) -> Sequence[str]:
    """Writes a sample for each evaluation; a picture stays the file that it is."""
    from ..authoring.samples import write_samples

    samples = [
        {name: files[name] if isinstance(value, ImageFeatureValue) else value for name, value in values.items()}
        for files, values in ((files, read_files(model, files)) for files in evaluations)
    ]
    return write_samples(path, samples, force=is_forced())


def _check(path: str, setup: Setup, as_json: bool) -> None:
    """Checks the samples; exits with 1 if one is wrong."""
    from ..authoring.samples import check_samples

    with prefix_errors(path), setup.make_session(path) as session:
        check = check_samples(session)
        where = {"device": session.device.name, "engine": session.engine, "precision": session.precision.name.lower()}
    emit(
        {"results": [{"model": path, "check": {"is_right": check.is_right, **where, **vars(check)}}]},
        as_json,
        _print_check,
    )
    if not check.is_right:
        raise click.exceptions.Exit(1)


def _print_check(facts: Facts) -> None:
    (result,) = facts["results"]
    check = result["check"]
    count, problems, difference = len(check["samples"]), check["problems"], check["largest_difference"]
    samples = f"{count} sample{'s' * (count > 1)}"
    if check["is_right"]:
        words = f"right: {samples}, at most {difference:.2%} apart"
    else:
        words = f"wrong: {len(problems)} difference{'s' * (len(problems) > 1)} in {samples}"
    print_line(f"{result['model']}: {words}, on {check['device']} with {check['engine']}")
    for problem in problems:
        print_line(f"  {problem}", is_error=True)
