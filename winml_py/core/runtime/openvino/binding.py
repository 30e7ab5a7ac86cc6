"""A binding of OpenVINO: an infer request, and the arrays that it reads and writes in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.cancellation import Stop
from ..engine import Array, Value
from ..ort.run import ended_by, fill, opened, shares_memory, trim_heap
from .errors import translate, translated
from .package import tensor_for, tensor_over
from .trace import Trace

if TYPE_CHECKING:
    import openvino


class OpenVinoBinding:
    """Tensors of numbers, bound by address.

    Three kinds of arrays are copied in each run: inputs that cannot be written, for OpenVINO takes none; inputs that an
    output is written over; and outputs of free size, whose memory OpenVINO chooses when it knows the size.
    """

    def __init__(
        self,
        compiled: openvino.CompiledModel,
        inputs: Sequence[str],
        outputs: Sequence[str],
        trace: Trace | None = None,
    ) -> None:
        with translated():
            request = compiled.create_infer_request()
        self._native: tuple[openvino.CompiledModel, openvino.InferRequest] | None = (compiled, request)
        self._trace = trace
        self._input_numbers, self._output_numbers = numbers(compiled.inputs, inputs), numbers(compiled.outputs, outputs)
        self._inputs: dict[str, Array] = {}  # OpenVINO's tensors do not keep their arrays alive
        self._copies: dict[str, Array] = {}
        self._in_place: dict[str, Array] = {}
        self._copied: dict[str, Array | None] = {}
        self._may_overlap = False

    def set_input(self, name: str, value: Any) -> None:
        """Binds an input, an array; see `EngineBinding`."""
        _, request = opened(self._native)
        self._bind_input(request, name, value, is_copied=not value.flags.writeable)
        self._may_overlap = self._may_overlap or bool(self._in_place)

    def _bind_input(self, request: openvino.InferRequest, name: str, value: Array, is_copied: bool) -> None:
        array = value.copy() if is_copied else value
        with translated():
            request.set_input_tensor(self._input_numbers[name], tensor_over(array))
        self._inputs[name] = array  # now that OpenVINO reads the one before no more
        self._copies.pop(name, None)
        if is_copied:
            self._copies[name] = value

    def _keep_apart(self, request: openvino.InferRequest) -> None:
        """Binds copies of the inputs that outputs are written over: OpenVINO may write before it has read."""
        for name, array in list(self._inputs.items()):
            value = self._copies.get(name, array)
            is_copied = not value.flags.writeable or shares_memory(value, self._in_place.values())
            if is_copied is not (name in self._copies):
                self._bind_input(request, name, value, is_copied)
        self._may_overlap = False

    def set_output(self, name: str, array: Array | None) -> None:
        """Binds an output; see `EngineBinding`."""
        compiled, request = opened(self._native)
        number = self._output_numbers[name]
        port = compiled.outputs[number]
        if array is not None and port.partial_shape.is_static and tuple(port.shape) == array.shape:
            with translated():
                request.set_output_tensor(number, tensor_over(array))
            self._in_place[name] = array
            self._copied.pop(name, None)
            self._may_overlap = True
            return
        if name in self._in_place:
            with translated():
                request.set_output_tensor(number, tensor_for(port))
            del self._in_place[name]
            self._may_overlap = True
        self._copied[name] = array

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `EngineBinding`."""
        compiled, request = opened(self._native)
        if self._may_overlap:
            self._keep_apart(request)
        inputs, in_place, copied = self._inputs, self._in_place, self._copied  # close() lets go of them
        try:
            for name, array in self._copies.items():
                np.copyto(inputs[name], array)
            if self._trace is None:
                _run(request, stop)
            else:
                self._trace.record(request, partial(_run, request, stop))
            fresh = {
                name: request.get_output_tensor(number).data.copy()
                for name, number in self._output_numbers.items()
                if name not in in_place
            }
            return fill(copied, fresh)
        except Exception as error:
            failure = translate(error)
        finally:
            del compiled, request, inputs, in_place, copied  # an error that somebody keeps must not keep the model
            if self._native is None:  # closed meanwhile: this was the last run in flight
                trim_heap()
        raise failure  # out here, where OpenVINO's own error and its frames are gone

    def close(self) -> None:
        """Lets go of the request and the bound memory."""
        self._native = None
        self._inputs, self._copies, self._in_place, self._copied = {}, {}, {}, {}


def numbers(ports: Sequence[openvino.ConstOutput | openvino.Output], names: Sequence[str]) -> dict[str, int]:
    """The place of each input, or of each output, by its name.

    OpenVINO leaves out nodes that do nothing, such as Dropout; an input of theirs then has the name of their output.
    The places stay those of the graph.
    """
    found = {name: number for number, port in enumerate(ports) for name in port.get_names()}
    return {name: number for number, name in enumerate(names)} if len(names) == len(ports) else found


def _run(request: openvino.InferRequest, stop: Stop | None) -> None:
    if stop is None:
        request.infer(share_outputs=True)
        return
    with ended_by(stop, request.cancel):
        request.start_async()
        if stop.requested:  # a request that came before the start had nothing to cancel
            request.cancel()
        request.wait()
