"""What each node took, in the format of Chrome's traces, with the names that ONNX Runtime's profiles have."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openvino


class Trace:
    """The runs of an engine that were recorded.

    Args:
        provider: the name of the engine in the trace.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._lock = threading.Lock()
        self._events: list[dict[str, Any]] = []
        self._start = time.perf_counter()
        self._written: bytes | None = None

    def record(self, request: openvino.InferRequest, run: Callable[[], None]) -> None:
        """Runs a request, and notes what it took."""
        began = time.perf_counter()
        run()
        ended = time.perf_counter()
        events = [self._event("Session", "model_run", began, (ended - began) * 1e6)]
        for node in request.profiling_info:  # in the order in which they ran
            took = node.real_time.total_seconds()
            if took:
                names = {"op_name": node.node_type, "provider": self._provider, "kernel": node.exec_type}
                events.append(self._event("Node", f"{node.node_name}_kernel_time", began, took * 1e6, names))
                began += took
        with self._lock:
            self._events += events

    def _event(self, category: str, name: str, began: float, took: float, names: Any = None) -> dict[str, Any]:
        where = {"pid": os.getpid(), "tid": threading.get_ident(), "ts": (began - self._start) * 1e6}
        return {"cat": category, "ph": "X", "name": name, "dur": took, "args": names or {}} | where

    def end(self) -> bytes:
        """The trace until this was called first."""
        with self._lock:
            if self._written is None:
                self._written = json.dumps(self._events).encode()
            return self._written
