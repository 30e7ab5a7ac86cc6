"""Samples whose answers are known: what `contract` writes of them, and what `run --check` and `doctor` find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..authoring.check_samples import ModelCheck
from ..authoring.evidence import outdated
from ..authoring.write_samples import write_samples
from ..core.base.messages import Facts
from ..core.model.model import LearningModel
from ..inputs.files import jobs, read
from .style import say


def add_samples(path: str, output: str, words: Sequence[str]) -> list[str]:
    """Writes a model with samples, in the place of those that it has.

    Args:
        path: the model.
        output: where to write; it may be the same.
        words: pictures and arrays, as `winml-py run` takes its inputs, and "example" for made-up inputs.

    Returns:
        Each sample and its answer, in words.
    """
    model = LearningModel.load(path)
    files = [word for word in words if word != "example"]
    found: list[dict[str, Any]] = (
        [read(model, each) for _, each in jobs(model, files, is_complete=False)] if files else []
    )
    found += [{}] * (len(words) - len(files))
    return [str(answer) for answer in write_samples(path, output, found)]


def warn_outdated(path: str, model: LearningModel) -> None:
    """Says to standard error why the proof or the samples in a model's file no longer hold."""
    for reason in outdated(model):
        say(f"{path}: {reason}", "bold yellow", is_error=True)


def check_facts(check: ModelCheck) -> Facts:
    """What was found, ready for JSON."""
    return {
        "is_right": check.is_right,
        "device": check.device,
        "engine": check.engine,
        "precision": check.precision.name.lower(),
        "largest_difference": check.largest_difference,
        "samples": [{**vars(answer), "is_right": answer.is_right} for answer in check.answers],
    }


def format_check(check: Facts) -> str:
    """One line on all samples."""
    count = len(check["samples"])
    words = f"{count} sample{'s' if count > 1 else ''}"
    if check["is_right"]:
        away = f"{check['largest_difference']:.1%}" if check["largest_difference"] >= 5e-4 else "less than 0.1%"
        return f"right: {words}, {away} away at most"
    wrong = sum(not one["is_right"] for one in check["samples"])
    return f"wrong: {wrong} of {words}"


def warn_problems(check: Facts) -> None:
    """Prints what differs to standard error, and what is worth knowing."""
    for one in check["samples"]:
        for problem in (*one["problems"], *one["notes"]):
            say(f"  {one['sample']}: {problem}", is_error=True)
