"""From OpenVINO's exceptions to ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ....errors import CorruptModelError, EvaluationError, NotSupportedError, WinMLError

_FRAME = re.compile(
    r"Exception from |Check '|FrontEnd API failed|Model wasn't fully converted|Summary:|Caught exception:$"
    r"|-- \S+ with a message:$|While validating .*:$"
)
"""How the lines begin that say where OpenVINO failed, and not why."""

_SOURCE = re.compile(r"(?<= failed) at \S+:\d+:?$")

_UNKNOWN = re.compile(r"No conversion rule found for operations: (.*)")


_FAILED = re.compile(r"^-- (\S+) with a message:", re.MULTILINE)
"""Operator and version, such as Dropout-6, that could not be read."""


@contextmanager
def translated(kind: type[WinMLError] = EvaluationError) -> Iterator[None]:
    """Within the block, what OpenVINO raises becomes one of our errors: `kind`, where its words say nothing else."""
    try:
        yield
    except Exception as error:  # it raises RuntimeError, and what Python's bindings make of other classes
        failure = translate(error, kind)
    else:
        return
    raise failure


def translate(error: Exception, kind: type[WinMLError] = EvaluationError) -> WinMLError:
    """The error to raise in place of one of OpenVINO's, with the first of its lines that says why."""
    if isinstance(error, WinMLError):
        return error
    text = str(error)
    if unknown := _UNKNOWN.search(text):
        return NotSupportedError(
            f"OpenVINO does not have these operators of the model: {unknown[1].strip()}.",
            hint='Set options.engine = "onnxruntime".',
        )
    words = next(filter(None, map(_reason, text.splitlines())), type(error).__name__)
    if failed := _FAILED.search(text):
        words = f"{failed[1]}: {words}"
    if kind is CorruptModelError:
        return kind(f"OpenVINO cannot read the model: {words}", hint="Check it with onnx.checker.check_model(path).")
    return kind(f"OpenVINO says: {words}")


def _reason(line: str) -> str:
    return "" if _FRAME.match(line.strip()) else _SOURCE.sub("", " ".join(line.split()))
