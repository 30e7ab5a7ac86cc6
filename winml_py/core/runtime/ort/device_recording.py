"""Recording a device's work: the graph that one binding had recorded, and replays."""

from __future__ import annotations

import itertools
from enum import Enum
from typing import TYPE_CHECKING

from ....errors import NotSupportedError
from ...base.device_array import DeviceArray

if TYPE_CHECKING:
    import onnxruntime

_graph_ids = itertools.count(1)
"""A number for each graph that the runtime is to keep."""

_NO_GRAPH = -1
"""The runtime's number for a run that is neither recorded nor replayed."""


class Recording(Enum):
    """Whether work is recorded: never, where that is possible, or because the options demand it."""

    NONE = 0
    POSSIBLE = 1
    DEMANDED = 2


class RecordedGraph:
    """What a binding had recorded. The runtime keeps it under a number; it reads and writes at fixed addresses.

    A binding that is evaluated once, as by `evaluate_features`, is not worth a recording: the second run makes it.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._id, self._runs = _NO_GRAPH, 0

    def prepare(self, run_options: onnxruntime.RunOptions) -> None:
        """Says in the options of a run what is to be recorded or replayed."""
        if self._recording is Recording.NONE:
            return
        self._runs += 1
        if self._id == _NO_GRAPH and self._runs > 1:
            self._id = next(_graph_ids)
        run_options.add_run_config_entry("gpu_graph_id", str(self._id))

    def input_moves(self, session: onnxruntime.InferenceSession, name: str, before: object, after: DeviceArray) -> None:
        """Forgets the graph where it reads an input from another address than the one that is bound now.

        Raises:
            NotSupportedError: the options demand the recording.
        """
        if self._id == _NO_GRAPH or before is after:
            return
        if isinstance(before, DeviceArray):
            if before.pointer is not None and before.pointer == after.pointer:
                return
            if self._recording is Recording.DEMANDED:
                raise NotSupportedError(
                    f"The input {name} was bound to other memory of the device, and the session's work is recorded for "
                    "that address (constraint fixed-addresses).",
                    hint="Write the new numbers into the array that is bound, use a binding for each array, or switch "
                    "graph_capture off.",
                )
        self.forget(session)

    def forget(self, session: onnxruntime.InferenceSession) -> None:
        """Lets go of the graph; the runtime would keep it, and this binding's memory, for the session's life."""
        if self._id != _NO_GRAPH:
            session.release_captured_graph(self._id)
        self._id, self._runs = _NO_GRAPH, 0
