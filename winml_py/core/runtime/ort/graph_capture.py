"""Graph capture: the device's work is captured as a graph in one run, and later runs replay the graph."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ....errors import NotSupportedError
from .device_memory import host_inputs, is_fixed

if TYPE_CHECKING:
    import onnxruntime

_ids = itertools.count(1)
"""An id for each graph that the runtime keeps."""

_NO_GRAPH = -1
"""The runtime's id for a run that neither captures nor replays a graph."""


class CapturedGraph:
    """The graph of one binding. The runtime keeps it under an id; it reads and writes at fixed addresses.

    A single evaluation is not worth a graph: the second run captures it.
    """

    def __init__(self) -> None:
        self._id, self._run_count = _NO_GRAPH, 0

    def prepare(self, run_options: onnxruntime.RunOptions) -> None:
        """Sets in the options of a run whether it captures or replays the graph."""
        self._run_count += 1
        if self._run_count == 2:
            self._id = next(_ids)
        run_options.add_run_config_entry("gpu_graph_id", str(self._id))

    def forget(self, session: onnxruntime.InferenceSession) -> None:
        """Releases the graph; the runtime would keep it, and this binding's memory, as long as the session lives."""
        if self._id != _NO_GRAPH:
            session.release_captured_graph(self._id)
        self._id, self._run_count = _NO_GRAPH, 0


def require_capturable(session: onnxruntime.InferenceSession) -> None:
    """Refuses a session whose graph would read or write at addresses that change.

    Raises:
        NotSupportedError: an input or output is not a tensor of numbers of fixed shape, or is read on the host.
    """
    if not all(map(is_fixed, (*session.get_inputs(), *session.get_outputs()))):
        raise not_capturable("all inputs and outputs are tensors of numbers with fixed shapes")
    if host_inputs(session):
        raise not_capturable("the provider reads every input on the device")


def not_capturable(requirement: str) -> NotSupportedError:
    """The error for a model that does not meet a requirement."""
    return NotSupportedError(
        f"The graph of this model cannot be captured: graph capture requires that {requirement}.",
        hint="Set options.graph_capture = False, or meet the requirement: free sizes can be overridden in the options.",
    )
