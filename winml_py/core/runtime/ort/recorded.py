"""Work that a device recorded and repeats, for each set of shapes that a session's inputs come in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.arrays import Array, DeviceArray
from ...base.cancellation import Stop, held
from ..runs import require_open, trim_heap, wrong_output_shape
from .device_binding import DeviceBinding
from .device_memory import NO_GRAPH, DeviceMemory, new_graph_id, outputs_of
from .errors import translate
from .session_options import RunConfig, stoppable

if TYPE_CHECKING:
    import onnxruntime

MOST_RECORDINGS = 4
"""So many sets of shapes a session keeps the memory and the recorded work of."""

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class RecordedRuns:
    """The recordings of one engine, which all its bindings repeat where arrays of the host come in and go out.

    The first run of a set of shapes shows what shapes the outputs have; the second is recorded over memory of these
    shapes, and those that follow repeat it. The set that was not used for longest makes room for a new one.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._runs: OrderedDict[_Shapes, _RecordedRun] = OrderedDict()

    def run(
        self,
        session: onnxruntime.InferenceSession,
        inputs: Mapping[str, Array],
        targets: Mapping[str, Array | None],
        options: onnxruntime.RunOptions,
    ) -> dict[str, Array]:
        """Runs the model, writes what has a target there, and gives copies of the rest; under the session's lock."""
        shapes = tuple((name, value.shape) for name, value in inputs.items())
        recorded = self._runs.pop(shapes, None) or _RecordedRun(session, self._memory, inputs)
        try:
            values = recorded.run(session, inputs, options)
        except BaseException:
            recorded.release(session)  # who knows what has been recorded
            raise
        self._runs[shapes] = recorded
        if len(self._runs) > MOST_RECORDINGS:
            _, oldest = self._runs.popitem(last=False)
            oldest.release(session)
        fresh = {}
        for name, value in values.items():
            target = targets.get(name)
            if target is None:
                fresh[name] = np.array(value.numpy())
            elif target.shape != tuple(value.shape()):
                raise wrong_output_shape(name, target.shape, tuple(value.shape()))
            else:
                np.copyto(target, value.numpy())
        return fresh

    def close(self) -> None:
        """Lets go of all memory; the recordings go with the session. Under the session's lock."""
        self._runs.clear()


class _RecordedRun:
    """The memory on the device of one set of shapes, and the number of what was recorded over it."""

    def __init__(
        self, session: onnxruntime.InferenceSession, memory: DeviceMemory, inputs: Mapping[str, Array]
    ) -> None:
        self._native = session.io_binding()
        self._copies = {name: memory.upload(value) for name, value in inputs.items()}
        for name, copy in self._copies.items():
            self._native.bind_ortvalue_input(name, copy)
        for end in session.get_outputs():
            self._native.bind_output(end.name, *memory.location)
        self._outputs: dict[str, onnxruntime.OrtValue] = {}
        self._id = NO_GRAPH

    def run(
        self,
        session: onnxruntime.InferenceSession,
        inputs: Mapping[str, Array],
        options: onnxruntime.RunOptions,
    ) -> Mapping[str, onnxruntime.OrtValue]:
        """The outputs, in memory that the next run writes again."""
        for name, copy in self._copies.items():
            copy.update_inplace(inputs[name])
        if self._outputs and self._id == NO_GRAPH:
            self._id = new_graph_id()
        options.add_run_config_entry("gpu_graph_id", str(self._id))
        session.run_with_iobinding(self._native, options)
        if not self._outputs:
            names = [end.name for end in session.get_outputs()]
            self._outputs = dict(zip(names, outputs_of(self._native), strict=True))
            for name, value in self._outputs.items():
                self._native.bind_ortvalue_output(name, value)
        return self._outputs

    def release(self, session: onnxruntime.InferenceSession) -> None:
        """Has the runtime let go of the recording, which it would keep, and this memory, for the session's life."""
        if self._id != NO_GRAPH:
            session.release_captured_graph(self._id)
            self._id = NO_GRAPH


class RecordedBinding:
    """A binding of an engine that records: arrays of the host repeat the engine's recordings.

    Tensors on the device have addresses of their own, and so a recording of their own: a `DeviceBinding` makes it, from
    the moment that the first of them is bound.

    Args:
        session: the compiled model.
        runs: the engine's recordings.
        make: makes the binding for tensors on the device; raises where the options demand a recording, and there can be
            none of such tensors.
        lock: the session's.
        config: of runs.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        runs: RecordedRuns,
        make: Callable[[], DeviceBinding],
        lock: AbstractContextManager[object],
        config: RunConfig,
    ) -> None:
        self._session: onnxruntime.InferenceSession | None = session
        self._runs, self._make, self._lock, self._config = runs, make, lock, config
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Array | DeviceArray | None] = {}
        self._kept: set[str] = set()
        self._own: DeviceBinding | None = None

    def set_input(self, name: str, value: Any) -> None:
        """Binds an input: an array of the host, or one on the device."""
        require_open(self._session)
        if isinstance(value, DeviceArray) or self._own is not None:
            self._on_device().set_input(name, value)
        self._inputs[name] = value

    def set_output(self, name: str, array: Array | DeviceArray | None) -> None:
        """Binds an output to the host's memory, to the device's, or to none."""
        require_open(self._session)
        if isinstance(array, DeviceArray) or self._own is not None:
            self._on_device().set_output(name, array)
        self._outputs[name] = array
        self._kept.discard(name)

    def keep_output(self, name: str) -> None:
        """Leaves an output in the device's memory."""
        self._on_device().keep_output(name)
        self._kept.add(name)

    def _on_device(self) -> DeviceBinding:
        if self._own is None:
            own = self._make()
            for name, value in self._inputs.items():
                own.set_input(name, value)
            for name, array in self._outputs.items():
                own.set_output(name, array)
            self._own = own
        return self._own

    def run(self, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model; see `DeviceEngineBinding`."""
        bound = (*self._inputs.values(), *self._outputs.values())
        if self._own is not None and (self._kept or any(isinstance(value, DeviceArray) for value in bound)):
            return self._own.run(stop)
        session = None
        try:
            with stoppable(stop or Stop(), self._config) as options, held(self._lock, stop):
                session = require_open(self._session)
                try:
                    return self._runs.run(session, self._inputs, self._outputs, options)  # type: ignore[arg-type]
                finally:
                    session = None  # under the lock: after `close` this was the last reference
        except Exception as error:  # the runtime raises classes that have no common base
            failure = translate(error)
        finally:
            if self._session is None:
                trim_heap()
        raise failure

    def close(self) -> None:
        """Lets go of the native session and the bound memory."""
        self._session = None
        self._inputs, self._outputs = {}, {}
        if self._own is not None:
            self._own.close()
