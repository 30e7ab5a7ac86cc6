"""Recordings of a device's work, which it replays, for each set of input shapes of a session."""

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
"""The number of sets of shapes for which a session keeps memory and recordings."""

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class RecordedRuns:
    """The recordings of one engine, which all its bindings replay for inputs and outputs in the host's memory.

    The first run of a set of shapes finds the shapes of the outputs. The second makes a recording over memory of these
    shapes, and checks it; later runs replay it. A new set replaces the least recently used one.

    A recording may omit work: WebGPU 0.4 omits copies between buffers, which a final Reshape and ScatterND make, and
    the outputs then keep their old contents. So a recording is made over zeros, replayed on the inputs, and compared
    with a plain run. If the results differ, the engine replays no recordings.

    Args:
        memory: the device's.
        is_demanded: whether an unusable recording is an error.
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
        """Runs the model, writes outputs to their targets, and returns copies of the rest; under the session's lock.

        Raises:
            NotSupportedError: a recording is demanded, but its results differ from a plain run's.
            SizeMismatchError: an output does not fit its target.
        """
        shapes = tuple(sorted((name, value.shape) for name, value in inputs.items()))
        recorded = self._runs.pop(shapes, None) or _RecordedRun(session, self._memory, inputs)
        try:
            is_right = recorded.run(session, inputs, config, stop, self._is_right is not False)
        except BaseException:
            recorded.release(session)  # the recording may be incomplete
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
        """Whether recordings over other memory work: tries one, once per engine.

        Raises:
            NotSupportedError: a recording is demanded, but its results differ from a plain run's.
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
            "The results of a recording of this model differ from a plain run's (constraint same-results).",
            hint="Set options.graph_capture = None to record only if that is possible.",
        )

    def close(self) -> None:
        """Releases all memory; the session frees the recordings. Under the session's lock."""
        self._is_closed = True
        self._runs.clear()


class _RecordedRun:
    """The device memory for one set of shapes, and the id of the recording over it."""

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
        """The outputs, in memory that the next run overwrites."""
        self._id, self._count = NO_GRAPH, 0

    def run(
        self,
        session: onnxruntime.InferenceSession,
        inputs: Mapping[str, Array],
        config: RunConfig,
        stop: Stop | None,
        may_record: bool,
    ) -> bool | None:
        """Fills the outputs, by the recording if there is one; returns whether that is right, if it was compared."""
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
        """Makes the runtime release the recording, which it would keep, with this memory, as long as the session."""
        if self._id != NO_GRAPH:
            session.release_captured_graph(self._id)
            self._id = NO_GRAPH
