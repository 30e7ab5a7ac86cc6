"""Work that a device recorded and repeats, for each set of shapes that a session's inputs come in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ....errors import NotSupportedError
from ...base.agreement import FLOAT_TOLERANCE, compare_outputs
from ...base.arrays import Array
from ...base.cancellation import Stop
from ..runs import wrong_output_shape
from .device_memory import NO_GRAPH, DeviceMemory, new_graph_id, outputs_of
from .session_options import RunConfig, stoppable

if TYPE_CHECKING:
    import onnxruntime

MOST_RECORDINGS = 4
"""So many sets of shapes a session keeps the memory and the recorded work of."""

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class RecordedRuns:
    """The recordings of one engine, which all its bindings repeat where arrays of the host come in and go out.

    The first run of a set of shapes shows what shapes the outputs have. The second makes a recording over memory of
    these shapes, and tries it; those that follow repeat it. The set that was not used for longest makes room for a new
    one.

    A recording may leave work out: WebGPU 0.4 leaves out copies between buffers, as Reshape at the end and ScatterND
    make them, and its outputs then stay as they were. So a recording is made over zeros, repeated on the inputs, and
    compared with a run that is not recorded. What differs is never repeated, nor is anything else of the engine.

    Args:
        memory: the device's.
        is_demanded: whether a recording that cannot be used is an error.
        tell: called once with the constraint that recordings do not meet.
    """

    def __init__(self, memory: DeviceMemory, is_demanded: bool, tell: Callable[[str], None]) -> None:
        self._memory, self._is_demanded, self._tell = memory, is_demanded, tell
        self._runs: OrderedDict[_Shapes, _RecordedRun] = OrderedDict()
        self._is_right: bool | None = None
        self._is_closed = False

    def run(
        self,
        session: onnxruntime.InferenceSession,
        inputs: Mapping[str, Array],
        targets: Mapping[str, Array],
        config: RunConfig,
        stop: Stop | None,
    ) -> dict[str, Array]:
        """Runs the model, writes what has a target there, and gives copies of the rest; under the session's lock.

        Raises:
            NotSupportedError: a recording is demanded, and does not give what a plain run gives.
            SizeMismatchError: an output does not fit its target.
        """
        shapes = tuple(sorted((name, value.shape) for name, value in inputs.items()))
        recorded = self._runs.pop(shapes, None) or _RecordedRun(session, self._memory, inputs)
        try:
            is_right = recorded.run(session, inputs, config, stop, self._is_right is not False)
        except BaseException:
            recorded.release(session)  # who knows what has been recorded
            raise
        if self._is_closed:
            recorded.release(session)
        else:
            self._runs[shapes] = recorded
        self._judge(session, is_right)
        if len(self._runs) > MOST_RECORDINGS:
            self._runs.popitem(last=False)[1].release(session)
        fresh = {name: np.array(value.numpy()) for name, value in recorded.outputs.items() if name not in targets}
        for name, target in targets.items():
            value = recorded.outputs[name]
            if target.shape != tuple(value.shape()):
                raise wrong_output_shape(name, target.shape, tuple(value.shape()))
            np.copyto(target, value.numpy())
        return fresh

    def require_right(self, session: onnxruntime.InferenceSession, inputs: Mapping[str, Array]) -> bool:
        """Whether a recording over other memory will do: one is tried here, once in the engine's life.

        Raises:
            NotSupportedError: a recording is demanded, and does not give what a plain run gives.
        """
        if self._is_right is None:
            for _ in range(2):
                self.run(session, inputs, {}, (), None)
        elif not self._is_right and self._is_demanded:
            raise self._not_right()
        return bool(self._is_right)

    def _judge(self, session: onnxruntime.InferenceSession, is_right: bool | None) -> None:
        if is_right is False and self._is_right is not False:
            for recorded in self._runs.values():
                recorded.release(session)
            self._tell("same-results")
        if is_right is not None:
            self._is_right = is_right and self._is_right is not False
        if self._is_right is False and self._is_demanded:
            raise self._not_right()

    def _not_right(self) -> NotSupportedError:
        return NotSupportedError(
            "A recording of this model's work does not give what the work itself gives (constraint same-results).",
            hint="Set options.graph_capture = None to record only where that is possible.",
        )

    def close(self) -> None:
        """Lets go of all memory; the recordings go with the session. Under the session's lock."""
        self._is_closed = True
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
        self.outputs: dict[str, onnxruntime.OrtValue] = {}
        """In memory that the next run writes again."""
        self._id, self._count = NO_GRAPH, 0

    def run(
        self,
        session: onnxruntime.InferenceSession,
        inputs: Mapping[str, Array],
        config: RunConfig,
        stop: Stop | None,
        may_record: bool,
    ) -> bool | None:
        """Fills the outputs, by the recording where there is one; gives whether that is right, if it was compared."""
        self._count += 1
        is_new = self._count == 2 and may_record
        if is_new:
            self._id = new_graph_id()
            zeros = {name: np.zeros_like(value) for name, value in inputs.items()}
            self._run_once(session, zeros, config, stop, self._id)
        self._run_once(session, inputs, config, stop, self._id)
        if not is_new:
            return None
        came = {name: np.array(value.numpy()) for name, value in self.outputs.items()}
        self._run_once(session, inputs, config, stop, NO_GRAPH)
        expected = {name: value.numpy() for name, value in self.outputs.items()}
        is_right = compare_outputs(expected, came, FLOAT_TOLERANCE).is_good
        if not is_right:
            self.release(session)
        return is_right

    def _run_once(
        self,
        session: onnxruntime.InferenceSession,
        inputs: Mapping[str, Array],
        config: RunConfig,
        stop: Stop | None,
        number: int,
    ) -> None:
        for name, copy in self._copies.items():
            copy.update_inplace(inputs[name])
        with stoppable(stop or Stop(), (*config, ("gpu_graph_id", str(number)))) as options:
            session.run_with_iobinding(self._native, options)
        if not self.outputs:
            names = [end.name for end in session.get_outputs()]
            self.outputs = dict(zip(names, outputs_of(self._native), strict=True))
            for name, value in self.outputs.items():
                self._native.bind_ortvalue_output(name, value)

    def release(self, session: onnxruntime.InferenceSession) -> None:
        """Has the runtime let go of the recording, which it would keep, and this memory, for the session's life."""
        if self._id != NO_GRAPH:
            session.release_captured_graph(self._id)
            self._id = NO_GRAPH
