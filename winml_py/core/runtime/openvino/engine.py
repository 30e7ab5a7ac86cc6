"""A model that OpenVINO compiled, as an engine."""

from __future__ import annotations

import io
import threading
import weakref
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ....enums import Precision
from ....errors import IllegalCallError
from ...base import forks
from ..engine import EngineBinding, PlacedNode
from ..explanation import Explanation
from ..ort.run import opened, trim_heap
from ..providers.provider import Target
from ..request import CompileRequest
from .binding import OpenVinoBinding
from .errors import translated
from .trace import Trace

if TYPE_CHECKING:
    import openvino

_NO_NODES = ("Input", "Output", "Const")


class OpenVinoEngine:
    """A compiled model whose inputs and outputs are in the host's memory.

    Its bindings may run at the same time, each in its own thread. It closes them when it is closed: every one drops the
    compiled model, a run in flight holds the last reference, and memory goes when that run returns.

    Args:
        compiled: the model.
        request: what it was compiled from.
        target: what it was compiled for.
        half_type: the type of half precision that it reports to compute in, or "".
    """

    def __init__(
        self, compiled: openvino.CompiledModel, request: CompileRequest, target: Target, half_type: str = ""
    ) -> None:
        self.options = options = request.options
        self._names = request.inputs, request.outputs
        precision = Precision.HALF if half_type else Precision.FLOAT32
        self.explanation = Explanation(target.spelling[0], precision, "as asked for", number_type=half_type)
        self._provider = target.provider
        self._compiled: openvino.CompiledModel | None = compiled
        self._trace = Trace(target.provider) if options.is_profiled else None
        self._bindings: weakref.WeakSet[OpenVinoBinding] = weakref.WeakSet()
        self._lock = threading.Lock()  # of the set alone; runs do not take it
        forks.watch(self)

    def bind(self, lock: AbstractContextManager[object]) -> EngineBinding:
        """A new, empty binding, which has an infer request of its own."""
        binding = OpenVinoBinding(opened(self._compiled), *self._names, self._trace)
        with self._lock:
            self._bindings.add(binding)
        if self._compiled is None:  # closed by another thread meanwhile
            binding.close()
        return binding

    def placement(self) -> list[PlacedNode]:
        """The nodes of the optimised graph, all of which OpenVINO runs."""
        nodes = opened(self._compiled).get_runtime_model().get_ordered_ops()
        kinds = [(node.get_friendly_name(), node.get_rt_info()["layerType"].astype(str)) for node in nodes]
        return [PlacedNode(name, kind, self._provider) for name, kind in kinds if kind not in _NO_NODES]

    def end_profiling(self) -> bytes:
        """The profile until this was called first; nothing is added to it from then on."""
        opened(self._compiled)
        if self._trace is None:
            raise IllegalCallError("Nothing is recorded.", hint="Set options.profiling = True first.")
        return self._trace.end()

    def export(self, stream: io.BytesIO) -> None:
        """Writes the compiled model, for `import_model`.

        Raises:
            OSError: the stream does.
            EvaluationError: OpenVINO cannot.
        """
        with translated():
            opened(self._compiled).export_model(stream)

    def close(self) -> None:
        """Drops the compiled model: it is freed here, or when the last run in flight lets go of it."""
        self._compiled = None
        with self._lock:
            bindings = list(self._bindings)
        for binding in bindings:
            binding.close()
        trim_heap()

    def in_child(self) -> None:
        """After a fork nothing of this is freed: that would wait for OpenVINO's threads, which are the parent's."""
        for thing in (self, *self._bindings):
            forks.keep_forever(thing)
