"""Compiles for a GPU or an NPU, in a supported precision; float16 models in float32, where it has no half precision."""

from __future__ import annotations

import io
import platform
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...enums import Precision, Weights
from ...errors import InvalidDeviceError, NotSupportedError
from ..base import machine
from ..base.arrays import DeviceArray
from ..base.cancellation import Stop
from ..onnx_file.nodes import embed_weight, walk_messages
from ..onnx_file.source import Skeleton
from .engine import ONNXRUNTIME, Engine, EngineOptions, Explanation
from .ort.compile import compile_with_ort
from .ort.device_binding import make_not_capturable_error
from .ort.errors import NodesLeftError
from .ort.ort_engine import OrtEngine
from .providers.catalogue import find_provider, get_session_lock, require_option_keys
from .providers.plugins import read_runtime_version
from .providers.provider import ProviderDevice, Target, shorten
from .request import CompileRequest
from .runs import Bound, fill

if TYPE_CHECKING:
    from pathlib import Path

    import onnx


class DeviceCompiler:
    """Compiles for one device of a provider."""

    def __init__(self, device: ProviderDevice) -> None:
        self._device = device
        self._provider = find_provider(device.provider)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the device; a provider has functions."""
        return type(self), (self._device,)

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model.

        Raises:
            InvalidDeviceError: the options name an engine that does not use the device.
            NotSupportedError: the graph cannot be captured, or a node would run on the CPU although it may not.
            WinMLError: the provider does not accept the model.
        """
        device, options = self._device, request.options
        if options.engine not in (None, ONNXRUNTIME) and device.engine != shorten(options.engine):
            raise InvalidDeviceError(
                f"{device.name} runs with {device.provider}, but the options specify the engine {options.engine}.",
                hint="Use the engine's device: LearningModelDevice.find(provider).",
            )
        if options.graph_capture and not self._provider.capture_option:
            raise NotSupportedError(
                f"Graph capture is not available with {device.provider}.", hint="Set options.graph_capture = False."
            )
        require_option_keys(device.provider, dict(options.provider_options))
        precision, reason = self._choose_precision(request)
        is_float32 = request.features.has_float16 and precision is Precision.FLOAT32
        if is_float32:
            # From here on, the model is float32. Only its inputs and outputs are float16: `Float32Engine` casts them.
            features = request.features._replace(has_float16=False)
            request = request._replace(model=as_float32(request.model), features=features)
        target = Target(device, precision)
        captures = self._is_captured(options)
        try:
            engine = self._open_or_compile(request, target) or compile_with_ort(request, target, captures)
        except NodesLeftError as error:
            if captures:
                requirement = "the provider supports every node, and no node is an If, a Loop or a Scan"
                raise make_not_capturable_error(requirement) from error
            raise
        engine.explanation = Explanation(target.engine, precision, reason)
        if not is_float32:
            return engine
        return Float32Engine(engine, request.features.float16_features)

    def _open_or_compile(self, request: CompileRequest, target: Target) -> OrtEngine | None:
        """Opens or makes the provider's compiled model in the cache; None if nothing is cached."""
        key, options = self._provider.cache_option, request.options
        if not key or key in dict(options.provider_options) or options.weights is Weights.PRIVATE:
            return None
        from ..cache import choose_folder, make_key, open_or_make

        versions = (read_runtime_version(), platform.platform(), machine.read_processor_id())
        folder = choose_folder(
            make_key(key, request.compute_digest(), options, target, versions), request.origin.total_size
        )
        if folder is None:
            return None

        def compile_in(folder: Path) -> OrtEngine:
            native = (*options.provider_options, (key, str(folder)))
            return compile_with_ort(request._replace(options=options._replace(provider_options=native)), target)

        def make(folder: Path) -> None:
            compile_in(folder).close()

        return open_or_make(folder, request.origin.path, compile_in, make)

    def _choose_precision(self, request: CompileRequest) -> tuple[Precision, str]:
        """The number type, and the reason for it.

        Raises:
            NotSupportedError: the options ask for a 16-bit type that the device or the model does not have.
        """
        asked_for, has_float16 = request.options.precision, request.features.has_float16
        if asked_for.is_half and not (has_float16 and self._device.float16 and asked_for is Precision.FLOAT16):
            is_convertible = self._device.float16 and not has_float16
            raise NotSupportedError(
                f"{self._device.name} computes this model in float32, but the options request "
                f"{asked_for.name.lower()}.",
                hint="Set options.precision = Precision.AUTO."
                + " For float16, make a float16 model with `winml-py convert`." * is_convertible,
            )
        if not has_float16:
            return Precision.FLOAT32, "the model is float32"
        if not self._device.float16:
            return Precision.FLOAT32, f"{self._device.name} does not support float16"
        if asked_for is Precision.FLOAT32:
            return Precision.FLOAT32, "as requested"
        return Precision.FLOAT16, "the model is float16"

    def _is_captured(self, options: EngineOptions) -> bool:
        """Whether the options ask for graph capture, by `graph_capture` or by the provider's option."""
        option = dict(options.provider_options).get(self._provider.capture_option, "0")
        return options.graph_capture or option.lower() in ("1", "true")

    def make_key(self, options: EngineOptions) -> Hashable:
        """The device; unique for engines that one thread at a time may run, because each session has its own lock."""
        is_own = self._provider.takes_one_thread or self._is_captured(options)
        return (self._device, object()) if is_own else self._device

    def make_session_lock(self) -> AbstractContextManager[object]:
        """A separate lock, or the device's."""
        return get_session_lock(self._device)


# Float16 models in float32: the graph, and an engine that casts at the edges.


TYPE_ATTRIBUTES = frozenset(("to", "dtype", "output_dtype", "output_datatype"))
"""The attributes of operators that name the types of their outputs."""


def as_float32(model: str | bytes | Skeleton) -> bytes:
    """The same graph with float32 in place of every float16: weights, constants, casts, inputs and outputs.

    It uses `onnx`, which loads in a quarter of the time of `onnx-ir`, because programs wait for it.

    Args:
        model: a path, the file's bytes, or a skeleton over a file.

    Returns:
        A ModelProto. The values of weights are unchanged.

    Raises:
        NotSupportedError: it would be larger than 2 GB.
    """
    from google.protobuf.message import EncodeError
    from onnx import AttributeProto, TensorProto, TypeProto, numpy_helper

    proto = _load(model)
    for message in walk_messages(proto):
        if isinstance(message, TensorProto) and message.data_type == TensorProto.FLOAT16:
            wide = numpy_helper.to_array(message).astype(np.float32)
            message.CopyFrom(numpy_helper.from_array(wide, message.name))
        elif isinstance(message, TypeProto.Tensor) and message.elem_type == TensorProto.FLOAT16:
            message.elem_type = TensorProto.FLOAT
        elif (
            isinstance(message, AttributeProto) and message.name in TYPE_ATTRIBUTES and message.i == TensorProto.FLOAT16
        ):
            message.i = TensorProto.FLOAT
    try:
        data: bytes = proto.SerializeToString()
    except (ValueError, EncodeError) as error:  # protobuf holds at most 2 GB
        raise NotSupportedError(
            "The device does not support half precision, and in float32 the model would be larger than 2 GB.",
            hint="Use the CPU, or a GPU that supports float16.",
        ) from error
    return data


def _load(model: str | bytes | Skeleton) -> onnx.ModelProto:
    import onnx

    skeleton = model if isinstance(model, Skeleton) else Skeleton(model)
    file = io.BytesIO(skeleton.model) if isinstance(skeleton.model, bytes) else skeleton.model
    proto = onnx.load(file, load_external_data=isinstance(model, str))
    if skeleton.folder:
        onnx.load_external_data_for_model(proto, skeleton.folder)
    for weight in proto.graph.initializer:
        embed_weight(weight, skeleton.files)
    return proto


# The engine with the float16 inputs and outputs that the model declares.


class Float32Engine:
    """Casts at the edges: bound values stay float16. It delegates everything except `run` to the engine.

    Args:
        engine: compiled from the float32 model.
        names: the inputs and outputs that are float16.
    """

    def __init__(self, engine: OrtEngine, names: frozenset[str]) -> None:
        self.options, self.location = engine.options, engine.location
        self._engine, self._names = engine, names
        self.upload, self.list_assigned_nodes = engine.upload, engine.list_assigned_nodes
        self.end_profiling, self.close = engine.end_profiling, engine.close

    @property
    def explanation(self) -> Explanation:
        """The explanation of the engine that runs the model."""
        return self._engine.explanation

    @explanation.setter
    def explanation(self, explanation: Explanation) -> None:
        self._engine.explanation = explanation

    @property
    def is_lost(self) -> bool:
        """Whether the engine is lost."""
        return self._engine.is_lost

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model; see `Engine`. Float16 outputs are always in the host's memory."""
        inner: Bound | None = bound.natives.get(self)
        if inner is None or inner.version != bound.version:
            inner = bound.natives[self] = self._renew(inner or Bound(lock=bound.lock), bound)
        for name in self._names & inner.inputs.keys():  # bound by reference, so it may have changed
            value, wide = bound.inputs[name], inner.inputs[name]
            if wide is not value:
                np.copyto(wide, value.to_numpy() if isinstance(value, DeviceArray) else value)  # type: ignore[arg-type]
        fresh = dict(self._engine.run(inner, stop))
        with np.errstate(over="ignore"):  # overflow becomes infinite, as on a device with float16
            for name in self._names & fresh.keys():
                if isinstance(fresh[name], np.ndarray):
                    fresh[name] = fresh[name].astype(np.float16)
            return fill({name: bound.outputs[name] for name in self._names & bound.outputs.keys()}, fresh)

    def _renew(self, inner: Bound, bound: Bound) -> Bound:
        """Makes the same `Bound` in float32, for the engine."""
        for name, value in bound.inputs.items():
            if name in self._names and getattr(value, "dtype", None) == np.float16:
                inner.inputs[name] = np.zeros(value.shape, np.float32)  # type: ignore[union-attr]
            else:
                inner.inputs[name] = value
        inner.outputs = {
            name: memory
            for name, memory in bound.outputs.items()
            if name not in self._names or isinstance(memory, DeviceArray)
        }
        inner.version = bound.version
        return inner
