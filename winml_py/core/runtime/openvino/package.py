"""The package openvino: imported when an engine needs it first, without its telemetry, and never across a fork."""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from typing import TYPE_CHECKING

from ....errors import IllegalCallError
from ..engine import Array

if TYPE_CHECKING:
    import openvino

_TELEMETRY = "openvino_telemetry"

_lock = threading.Lock()
_importers: set[int] = set()
"""The process that has OpenVINO's threads."""


def core() -> openvino.Core:
    """OpenVINO's own object for all that it does in this process.

    Raises:
        IllegalCallError: this process was forked from one that has it.
    """
    if _importers and os.getpid() not in _importers:
        raise IllegalCallError(
            "OpenVINO does not survive a fork: its threads are in the process that imported it.",
            hint='Start processes with multiprocessing.get_context("spawn").',
        )
    with _lock:
        _importers.add(os.getpid())
        return _core()


@cache
def _core() -> openvino.Core:
    _block_telemetry()
    import openvino

    return openvino.Core()


def _block_telemetry() -> None:
    """Has `import openvino` find no telemetry: it would send an event at once, with consent taken for granted.

    The block stays, for other parts of OpenVINO import it later. What the program itself has imported is left alone.
    """
    if "openvino" not in sys.modules:
        sys.modules.setdefault(_TELEMETRY, None)  # type: ignore[arg-type]  # Python's own way to say: not there


def tensor_over(array: Array) -> openvino.Tensor:
    """A tensor over the memory of an array, which the caller keeps alive.

    Args:
        array: C-contiguous and writable.
    """
    import openvino

    return openvino.Tensor(array, shared_memory=True)


def tensor_for(port: openvino.ConstOutput) -> openvino.Tensor:
    """A tensor with memory of its own, for an output of fixed shape."""
    import openvino

    return openvino.Tensor(port.get_element_type(), port.get_shape())
