"""Checks of the answers stored in a model: as facts, and as lines."""

from __future__ import annotations

from ..authoring.check_samples import ModelCheck
from ..authoring.evidence import outdated
from ..core.base.messages import Facts
from ..core.model.model import LearningModel
from .style import say


def warn_outdated(path: str, model: LearningModel) -> None:
    """Prints to standard error why the proof or the samples in a model are outdated."""
    for reason in outdated(model):
        say(f"{path}: {reason}", "bold yellow", is_error=True)


def check_facts(check: ModelCheck) -> Facts:
    """The results of a check, ready for JSON."""
    return {
        "is_right": check.is_right,
        "device": check.device,
        "engine": check.engine,
        "precision": check.precision.name.lower(),
        "largest_difference": check.largest_difference,
        "samples": [{**vars(answer), "is_right": answer.is_right} for answer in check.answers],
    }


def format_check(check: Facts) -> str:
    """One line about all samples."""
    count = len(check["samples"])
    words = f"{count} sample{'s' if count > 1 else ''}"
    if check["is_right"]:
        away = f"{check['largest_difference']:.1%}" if check["largest_difference"] >= 5e-4 else "less than 0.1%"
        return f"right: {words}, {away} away at most"
    wrong = sum(not one["is_right"] for one in check["samples"])
    return f"wrong: {wrong} of {words}"


def warn_problems(check: Facts) -> None:
    """Prints differences and notes to standard error."""
    for one in check["samples"]:
        for problem in (*one["problems"], *one["notes"]):
            say(f"  {one['sample']}: {problem}", is_error=True)
