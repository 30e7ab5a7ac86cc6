"""Imports the package openvino, without its telemetry and never across a fork; and translates its exceptions."""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import TYPE_CHECKING

from ....errors import CorruptModelError, EvaluationError, IllegalCallError, NotSupportedError, WinMLError
from ...base.arrays import Array
from ..runs import translate_errors

if TYPE_CHECKING:
    import openvino


_lock = threading.Lock()
_importers: set[int] = set()
"""The id of the process that has OpenVINO's threads."""


def get_core() -> openvino.Core:
    """OpenVINO's `Core`, one per process.

    Raises:
        IllegalCallError: this process was forked from one that has it.
    """
    if _importers and os.getpid() not in _importers:
        raise IllegalCallError(
            "OpenVINO cannot be used after a fork, because its threads are in the process that imported it.",
            hint='Start processes with multiprocessing.get_context("spawn").',
        )
    with _lock:
        _importers.add(os.getpid())
        return _make_core()


@cache
def _make_core() -> openvino.Core:
    # The import would send an event at once, without asking for consent: so it gets no telemetry package. The block
    # stays, because other parts of OpenVINO import it later. A program's earlier import is not changed.
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # makes the import fail
    import openvino

    return openvino.Core()


def share_tensor(array: Array) -> openvino.Tensor:
    """A tensor over the memory of an array, which the caller keeps alive.

    Args:
        array: C-contiguous and writable.
    """
    import openvino

    # numpy has two types of the same integers, `int64` and `longlong`, of which OpenVINO knows the first.
    return openvino.Tensor(array.view(array.dtype.str), shared_memory=True)


def allocate_tensor(port: openvino.ConstOutput) -> openvino.Tensor:
    """A tensor with new memory, for an output of fixed shape."""
    import openvino

    return openvino.Tensor(port.get_element_type(), port.get_shape())


# Translation of OpenVINO's exceptions.


_FRAME = re.compile(
    r"Exception from |Check '|FrontEnd API failed|Model wasn't fully converted|Summary:|Caught exception:$"
    r"|-- \S+ with a message:$|While validating .*:$"
)
"""The beginnings of lines that say where OpenVINO failed, but not why."""

_SOURCE = re.compile(r"(?<= failed) at \S+:\d+:?$")

_FAILED = re.compile(r"^-- (\S+) with a message:", re.MULTILINE)
"""The operator and version, such as Dropout-6, that could not be read."""

_UNKNOWN = re.compile(r"No conversion rule found for operations: (.*)")


def translate_openvino_errors(kind: type[WinMLError] = EvaluationError) -> AbstractContextManager[None]:
    """Within the block, OpenVINO's errors become WinMLErrors: `kind`, unless their text says more."""
    return translate_errors(partial(translate, kind=kind))


def translate(error: Exception, kind: type[WinMLError] = EvaluationError) -> WinMLError:
    """Translates an error of OpenVINO, with the first of its lines that says why."""
    if isinstance(error, WinMLError):
        return error
    text = str(error)
    if unknown := _UNKNOWN.search(text):
        return NotSupportedError(
            f"OpenVINO does not support these operators of the model: {unknown[1].strip()}.",
            hint='Set options.engine = "onnxruntime".',
        )
    lines = (" ".join(line.split()) for line in text.splitlines())
    words = next((_SOURCE.sub("", line) for line in lines if line and not _FRAME.match(line)), type(error).__name__)
    if failed := _FAILED.search(text):
        words = f"{failed[1]}: {words}"
    if kind is CorruptModelError:
        return kind(f"OpenVINO cannot read the model: {words}", hint="Check it with onnx.checker.check_model(path).")
    return kind(f"OpenVINO reported: {words}")
