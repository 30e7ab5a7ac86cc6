"""A compiled model of OpenVINO as an engine: its bindings, and the trace of its nodes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....enums import Precision
from ....errors import IllegalCallError
from ...base.arrays import Array
from ...base.cancellation import Stop
from ..engine import AssignedNode, EngineOptions, Explanation, LocalEngine
from ..providers.provider import Target
from ..request import CompileRequest
from ..runs import Bound, InputAddresses, NativeModel, Value, call, end_on_stop, fill, require_open, trim_heap
from .package import allocate_tensor, share_tensor, translate, translate_openvino_errors

if TYPE_CHECKING:
    import openvino


_NO_NODES = ("Input", "Output", "Const")


class OpenVinoEngine(NativeModel, LocalEngine):
    """A compiled model whose inputs and outputs are in the host's memory.

    Args:
        compiled: the model.
        request: its compile request.
        target: its target.
        precision: the number type that it reports.
    """

    def __init__(
        self, compiled: openvino.CompiledModel, request: CompileRequest, target: Target, precision: Precision
    ) -> None:
        super().__init__(compiled)
        self.options = request.options
        self._names = request.features.inputs, request.features.outputs
        threads = _describe_threads(compiled, request.options)
        self.explanation = Explanation(target.engine, precision, "as requested", threads=threads)
        self._provider = target.provider

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `Engine`. Each `Bound` has a separate infer request, so threads run concurrently."""
        try:
            return call(self._run, translate, bound, stop)
        finally:
            if self._native is None:  # the engine was closed during this run, which was the last
                trim_heap()

    def _run(self, bound: Bound, stop: Stop | None) -> Mapping[str, Value]:
        compiled = require_open(self._native)
        binding: OpenVinoBinding | None = bound.natives.get(self)
        if binding is None:
            binding = bound.natives[self] = OpenVinoBinding(compiled, *self._names)
            self._close_with_this(binding)
        return binding.run(bound, stop)

    def list_assigned_nodes(self) -> list[AssignedNode]:
        """The nodes of the optimised graph, all of which OpenVINO runs."""
        nodes = require_open(self._native).get_runtime_model().get_ordered_ops()
        kinds = [(node.get_friendly_name(), node.get_rt_info()["layerType"].astype(str)) for node in nodes]
        return [AssignedNode(name, kind, self._provider) for name, kind in kinds if kind not in _NO_NODES]

    def end_profiling(self) -> bytes:
        """Refused: a session that is to be profiled does not take OpenVINO (`ORT_ONLY`)."""
        require_open(self._native)
        raise IllegalCallError("No profile was recorded.", hint="Use another engine: OpenVINO records no profile.")

    def export(self, stream: io.BytesIO) -> None:
        """Writes the compiled model, for `import_model`.

        Raises:
            OSError: if the stream raises it.
            EvaluationError: if OpenVINO cannot export the model.
        """
        with translate_openvino_errors():
            require_open(self._native).export_model(stream)


def _describe_threads(compiled: openvino.CompiledModel, options: EngineOptions) -> str:
    """The threads that OpenVINO uses; see `providers/openvino.py`.

    One call uses all cores by default, as with ONNX Runtime: one stream per core was no faster for many concurrent
    calls than for consecutive ones (docs/performance.md), and a single call took twice the time.
    """
    with translate_openvino_errors():
        streams, threads = (int(compiled.get_property(key)) for key in ("NUM_STREAMS", "INFERENCE_NUM_THREADS"))
    asked_for = options.intra_op_num_threads
    fewer = f", but {asked_for} were requested" if threads < asked_for else ""
    return f"{streams} call{'s' * (streams > 1)} at once on {threads} thread{'s' * (threads > 1)}{fewer}"


# OpenVINO's binding of a `Bound`: an infer request, and the arrays that it reads and writes in place.


class OpenVinoBinding:
    """The infer request of a `Bound`.

    Each run copies three kinds of arrays: read-only inputs, which OpenVINO rejects; inputs that an output overwrites;
    and outputs of free size, which OpenVINO allocates when it knows the size.
    """

    def __init__(self, compiled: openvino.CompiledModel, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._native: tuple[openvino.CompiledModel, openvino.InferRequest] | None
        self._native = (compiled, compiled.create_infer_request())
        self._version = -1
        self._input_numbers = find_port_numbers(compiled.inputs, inputs)
        self._output_numbers = find_port_numbers(compiled.outputs, outputs)
        self._inputs = InputAddresses(takes_read_only=False)  # OpenVINO's tensors do not keep their arrays alive
        self._in_place: dict[str, Array] = {}

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `Engine`."""
        compiled, request = require_open(self._native)
        inputs, in_place = self._inputs, self._in_place  # close() may drop them at any moment
        if bound.version != self._version:
            self._renew(compiled, request, bound)
        inputs.refresh()
        _run(request, stop)
        fresh = {
            name: request.get_output_tensor(number).data.copy()
            for name, number in self._output_numbers.items()
            if name not in in_place
        }
        return fill({name: array for name, array in bound.outputs.items() if name not in in_place}, fresh)

    def _renew(self, compiled: openvino.CompiledModel, request: openvino.InferRequest, bound: Bound) -> None:
        for name, number in self._output_numbers.items():
            memory, port = bound.outputs.get(name), compiled.outputs[number]
            if not (
                isinstance(memory, np.ndarray) and port.partial_shape.is_static and tuple(port.shape) == memory.shape
            ):
                # In new memory, from which the result is copied; otherwise it would still write to the caller's.
                if self._in_place.pop(name, None) is not None:
                    request.set_output_tensor(number, allocate_tensor(port))
            elif self._in_place.get(name) is not memory:
                request.set_output_tensor(number, share_tensor(memory))
                self._in_place[name] = memory

        def bind(name: str, array: Array) -> None:
            request.set_input_tensor(self._input_numbers[name], share_tensor(array))

        self._inputs.renew(bound.inputs, self._in_place.values(), bind)
        self._version = bound.version

    def close(self) -> None:
        """Releases the request and the bound memory."""
        self._native = None
        self._inputs, self._in_place = InputAddresses(), {}


def find_port_numbers(ports: Sequence[openvino.ConstOutput | openvino.Output], names: Sequence[str]) -> dict[str, int]:
    """The position of each input, or of each output, by its name.

    OpenVINO leaves out nodes that do nothing, such as Dropout, and names their input after their output. The positions
    remain those of the graph.
    """
    by_port_name = {name: number for number, port in enumerate(ports) for name in port.get_names()}
    return {name: number for number, name in enumerate(names)} if len(names) == len(ports) else by_port_name


def _run(request: openvino.InferRequest, stop: Stop | None) -> None:
    if stop is None:
        # Without the argument, the package copies every output into a dict, which is not used here.
        request.infer(share_outputs=True)
        return
    with end_on_stop(stop, request.cancel):
        request.start_async()
        if stop.requested:  # a stop before the start had nothing to cancel
            request.cancel()
        request.wait()
