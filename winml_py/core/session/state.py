"""The private state of a session and of its bindings: a compiled model, and values that are bound to it."""

from __future__ import annotations

import copy
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...enums import Precision
from ...errors import (
    ClosedError,
    DeviceLostError,
    EngineLostError,
    EvaluationError,
    IllegalCallError,
    InvalidArgumentError,
    InvalidBindingError,
    MissingInputError,
    WinMLError,
)
from ..base import child_process
from ..base.arrays import Array, DeviceArray
from ..base.cancellation import Stop, hold
from ..base.collections import NameMap, PropertySet
from ..base.messages import logger, type_name
from ..base.winrt_object import private_state
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..features.pictures import PreprocessPlan
from ..features.prepare import Prepared, open_deferred, prepare
from ..features.tables import is_column, is_table, name_columns
from ..features.tensor import Tensor, TensorStorage
from ..features.tensor_classes import TensorString, needs_cast, require_half_range
from ..imaging.contract import ImageContract, Placement
from ..imaging.picture_placement import PicturePlacement
from ..imaging.pixels import BufferCache
from ..imaging.tensorize import tensorize_batch
from ..model.contracts import as_image
from ..model.model import LearningModel
from ..runtime.engine import Engine
from ..runtime.pool import Lease
from ..runtime.request import CompileRequest
from ..runtime.runs import Bound, require_open
from .outputs import TensorOutput, prepare_output, require_no_overlap
from .result import LearningModelEvaluationResult, ModelFacts, OutputSlot, UnboundOutput

if TYPE_CHECKING:
    from .device_pictures import DeviceTensorizer, PictureModels


class SessionState:
    """A model compiled for a device; usable until the session is closed, the device is lost, or the process forks.

    Args:
        model: the compiled model.
        features: its inputs, with the sizes that the options override.
        lease: the lease of the engine.
        lock: the session's.
        device_name: for errors.
        compile_model: compiles another model for the device.

    Attributes:
        inputs: the model's, by name, in the graph's order, with the contracts that are attached to them.
        input_names: their names.
        outputs: the model's, by name, in the graph's order.
        names: the names of all features, as the model spells them, found in any case.
        unbound_outputs: the slots of unbound outputs, for all evaluations.
        facts: what results offer of the model's file.
        properties: the session's `evaluation_properties`.
        is_silent: whether probable mistakes of the program are ignored, as in Windows ML.
        missing_contracts: warns of pictures without a contract.
        lock: the session's, which the engine holds while it uses a GPU.
        loss: the error of the run in which the device or the engine's process was lost; no later run can succeed.
        is_inherited: whether a fork brought it into this process.
        picture_models: the models that tensorize pictures on the device; None where the host does it.
    """

    def __init__(
        self,
        model: LearningModel,
        features: Sequence[FeatureDescriptor],
        lease: Lease,
        lock: AbstractContextManager[object],
        device_name: str,
        compile_model: Callable[[CompileRequest], Engine],
    ) -> None:
        self._lease: Lease | None = lease
        content = private_state(model)
        # The exporter's contract is read again: an option may fix the sizes that it filled in, or leave them free.
        self.inputs = LiveFeatures(map(content.apply_exporters_contract, features), content.attached_contracts)
        self.input_names = frozenset(self.inputs)
        self.is_silent = content.is_silent
        self.properties = PropertySet()
        self.missing_contracts = content.missing_contracts
        self.outputs: Mapping[str, FeatureDescriptor] = {feature.name: feature for feature in model.output_features}
        self.facts = ModelFacts(model.labels, model.metadata, self.outputs)
        self.names = NameMap({name: name for name in (*self.inputs, *self.outputs)})
        self.unbound_outputs: Mapping[str, OutputSlot] = {
            name: UnboundOutput(feature) for name, feature in self.outputs.items()
        }
        self.lock = lock
        self.device_name = device_name
        self.loss: DeviceLostError | None = None
        self.is_inherited = False
        self._process = os.getpid()
        child_process.watch_forks(self)
        # A program in C that embeds Python, such as uWSGI, may fork without telling it. Asking takes a system call.
        self._may_fork_unseen = not sys.orig_argv
        self.picture_models: PictureModels | None = None
        if lease.engine.location is not None:
            from .device_pictures import PictureModels  # sessions on the CPU do not need it

            has_float32 = lease.engine.explanation.precision is Precision.FLOAT32
            self.picture_models = PictureModels(compile_model, lock, has_float32)

    @property
    def engine(self) -> Engine:
        """The engine; raises as `require_open`."""
        return self.require_open()

    def require_open(self) -> Engine:
        """The engine, as long as it can be used.

        Raises:
            ClosedError: the session has been closed.
            DeviceLostError: the device was lost, or the engine process: `EngineLostError`.
            IllegalCallError: another process made the session.
        """
        if self._may_fork_unseen:
            child_process.notice_fork()
        lease = self._lease
        if lease is not None and self.loss is None:  # first, because every bind and run takes this branch
            return lease.engine
        if self.is_inherited:
            raise IllegalCallError(
                f"The session was created in process {self._process} and cannot be used after a fork: its threads are "
                f"not in this process, {os.getpid()}.",
                hint="Create a session in this process. For a GPU, start processes with "
                'multiprocessing.get_context("spawn").',
            )
        require_open(lease)
        if isinstance(self.loss, EngineLostError):
            raise EngineLostError(self.loss.message, hint=self.loss.hint)
        raise DeviceLostError(
            f"The device {self.device_name} was lost during an evaluation, and the session with it.",
            hint="Create a new LearningModelDevice, and a session on it.",
        )

    def lose(self, error: DeviceLostError) -> None:
        """Notes the loss of the device, after which no run can succeed."""
        self.loss = copy.copy(error)  # without its traceback, whose frames hold the engine

    def find(self, name: str) -> tuple[FeatureDescriptor, bool]:
        """The feature of a name, and whether it is an input: inputs before outputs, exact spelling before another case.

        Raises:
            InvalidBindingError: if the model has no feature of that name.
        """
        if not isinstance(name, str):
            raise InvalidBindingError(f"Expected a feature name, got {type_name(name)}.", hint="Pass it as a str.")
        try:
            return self.inputs[name], True
        except KeyError:
            pass
        if name in self.outputs:
            return self.outputs[name], False
        if name in self.names:
            return self.find(self.names[name])
        raise InvalidBindingError(
            f"The model has no variable with name {name}.",
            hint=f"Its inputs: {', '.join(self.inputs) or 'none'}; its outputs: {', '.join(self.outputs) or 'none'}.",
        )

    def require_distinct(self, names: Iterable[str]) -> None:
        """Refuses two names of one feature: one of their values would be dropped in silence."""
        spellings: dict[str, str] = {}
        for name in names:
            descriptor, is_input = self.find(name)
            first_name = spellings.setdefault(descriptor.name, name)
            if first_name != name:
                direction = "input" if is_input else "output"
                raise InvalidArgumentError(
                    f"{first_name!r} and {name!r} specify the same {direction}.", hint="Omit one of them."
                )

    def name_values(self, values: Any) -> Any:
        """The columns of a table, which may be a mapping, by the names of inputs; other values as they are.

        Raises:
            WinMLError: as `name_columns` does.
        """
        if not isinstance(values, (dict, Mapping)):  # `dict` first: that check is faster
            return name_columns(values, self.inputs) if is_table(values) else values
        if len(values) > 1 and len(self.inputs) == 1 and all(map(is_column, values.values())):
            (matrix,) = self.inputs.values()
            if len(getattr(matrix, "shape", ())) == 2 and matrix.name.lower() not in map(str.lower, map(str, values)):
                return name_columns(values, self.inputs)
        return values

    @property
    def is_lost(self) -> bool:
        """Whether the device or the engine process was lost."""
        return self.loss is not None or (self._lease is not None and self._lease.engine.is_lost)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has been called."""
        return self._lease is None

    def close(self) -> None:
        """Returns the engine to the pool. Calling it twice is harmless."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()
            if self.picture_models is not None:
                self.picture_models.close()

    def handle_fork(self) -> None:
        """After a fork, the engine belongs to the parent: the child neither uses nor returns it."""
        lease, self._lease = self._lease, None
        self.picture_models = None
        if lease is not None:
            self.is_inherited = True
            lease.forget()


class LiveFeatures(Mapping[str, FeatureDescriptor]):
    """A session's inputs by name, each with the contract attached to it at the time of access."""

    def __init__(self, features: Iterable[FeatureDescriptor], attached: Mapping[str, ImageContract]) -> None:
        self._features = {feature.name: feature for feature in features}
        self._attached = attached
        self._images: dict[str, ImageFeatureDescriptor] = {}

    def __getitem__(self, name: str) -> FeatureDescriptor:
        contract = self._attached.get(name)
        if contract is None:
            return self._features[name]
        image = self._images.get(name)  # cached, because every bind needs it
        if image is None or image.contract is not contract:
            image = self._images[name] = as_image(self._features[name], contract)
        return image

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)


class InputSlot:
    """One input of a binding. It owns the memory that pictures are written into. The binding's lock guards it.

    Attributes:
        prepared: what is bound; None before the first bind.
        plan: how pictures became the input's tensor; None for other values.
    """

    __slots__ = ("_cast", "_tensor_memory", "plan", "prepared")

    def __init__(self) -> None:
        self.prepared: Prepared | None = None
        self.plan: PreprocessPlan | None = None
        self._tensor_memory: Array | DeviceArray | None = None  # that of a `Tensor`, at the bind
        self._cast: tuple[Array, Array] | None = None  # its float32 numbers, and the halves that the engine reads

    def put(
        self, prepared: Prepared, bound: Bound, tensorizer: DeviceTensorizer | None, buffer_caches: list[BufferCache]
    ) -> None:
        """Puts a value into the inputs of the engine: by reference, cast, or written as a picture's tensor.

        Args:
            prepared: the value.
            bound: what the engine reads.
            tensorizer: writes pictures on the device; None where the host does it.
            buffer_caches: of the binding, for pictures that the host writes.
        """
        name, source = prepared.feature.name, prepared.converted
        tensor_memory: Array | DeviceArray | None = None
        cast: tuple[Array, Array] | None = None
        if prepared.plan is not None:
            # A picture of the same size overwrites the previous one, in memory that the engine already reads.
            previous: Any = None if self.plan is None else bound.inputs[name]
            memory = _write_pictures(prepared, prepared.plan, previous, tensorizer, buffer_caches)
            if memory is not previous:
                bound.set_input(name, memory)
        elif isinstance(source, Tensor):
            storage = private_state(source)
            tensor_memory = storage.array if storage.device_array is None else storage.device_array
            if storage.device_array is not None:
                bound.set_input(name, storage.device_array)
            else:
                array = source.to_numpy()
                if needs_cast(source, prepared.feature):
                    require_half_range(array, prepared.feature)
                    cast = array, np.empty(array.shape, np.float16)  # `refresh` casts, before each run
                    array = cast[1]
                if isinstance(source, TensorString):  # bind copies strings, as Windows ML does
                    array, tensor_memory = array.copy(), None
                bound.set_input(name, array)
        else:
            bound.set_input(name, source)
        # Only now: after an error, what was bound before stays bound.
        self.prepared, self.plan, self._tensor_memory, self._cast = prepared, prepared.plan, tensor_memory, cast

    def refresh(self) -> bool:
        """Casts the current numbers of a tensor, before a run, if they are to be cast.

        Returns:
            Whether the tensor has other memory than at the bind, because another evaluation has written it: it must
            then be put again.

        Raises:
            IllegalCallError: the evaluation that was to write it failed.
            InvalidBindingError: a number does not fit into float16.
        """
        if self._tensor_memory is None or self.prepared is None:
            return False
        storage: TensorStorage = private_state(self.prepared.converted)
        storage.require_valid()
        if storage.has_other_memory(self._tensor_memory):
            return True
        if self._cast is not None:
            numbers, halves = self._cast
            require_half_range(numbers, self.prepared.feature)
            np.copyto(halves, numbers, "same_kind")
        return False


def _write_pictures(
    prepared: Prepared,
    plan: PreprocessPlan,
    previous: Any,
    tensorizer: DeviceTensorizer | None,
    buffer_caches: list[BufferCache],
) -> Array | DeviceArray:
    """Writes pictures into their tensor, the previous one if it fits: on the device if it can, else on the CPU."""
    if prepared.pixel_format is not None:
        assert tensorizer is not None  # without it, `prepare` refuses pixels on a device
        return tensorizer.write_pixels(prepared.converted, prepared.pixel_format, plan, previous)
    bitmaps, placements = plan.decode(prepared.converted)
    if tensorizer is not None:
        tensor = tensorizer.write(plan, bitmaps, placements, previous)
        if tensor is not None:
            return tensor
    memory = plan.reuse_or_allocate(previous)
    tensorize_batch(bitmaps, plan.contract, placements, memory, buffer_caches)
    return memory


class BindingState:
    """The private state of a binding. Its lock makes threads that use one binding take turns.

    Attributes:
        session_state: the compiled model.
        values: the caller's values, by the names of features.
        bound: what the engine reads and writes for them.
    """

    def __init__(self, session_state: SessionState) -> None:
        self.session_state = session_state
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self.values: dict[str, Any] = {}
        self._placements: dict[str, Sequence[Placement]] = {}
        self.bound = Bound(lock=self.session_state.lock)
        self._inputs: dict[str, InputSlot] = {}
        self._outputs = dict(self.session_state.unbound_outputs)
        self._buffer_caches: list[BufferCache] = []
        models = self.session_state.picture_models
        self._tensorizer = models.make_tensorizer() if models is not None else None
        self._is_ready = False  # whether `_require_ready` has passed since the last bind

    def clear(self) -> None:
        """Unbinds everything, and frees the tensors of pictures."""
        self.session_state.require_open()  # before the lock, which might never be released in a forked process
        with self._lock:
            self._reset()

    def forget(self) -> None:
        """Unbinds all values, so that others can be bound: inputs are missing then, and outputs become new objects.

        The engine's bindings and the tensors of pictures stay, because making them again costs more than most runs.
        """
        with self._lock:
            for name in list(self.bound.outputs):
                self.bound.set_output(name, None)
            self._inputs = {name: slot for name, slot in self._inputs.items() if slot.plan is not None}
            self._outputs = dict(self.session_state.unbound_outputs)
            self.values, self._placements = {}, {}
            self._is_ready = False

    def bind(self, name: str, value: object, properties: BindProperties = NO_PROPERTIES, *, files: bool = True) -> None:
        """Binds a value to a feature; raises as `prepare` and `put` do."""
        self.put(self.prepare(name, value, properties, files=files))

    def prepare(
        self, name: str, value: object, properties: BindProperties = NO_PROPERTIES, *, files: bool = True
    ) -> Prepared | OutputSlot:
        """Checks a value for `put`, which another thread may call. No engine runs, and no picture is decoded.

        Args:
            name: the feature's, in any case.
            value: what the caller passes.
            properties: those of the bind.
            files: whether the value may be a file; never for models loaded by `winml_py.winrt`, as in Windows ML.

        Raises:
            InvalidBindingError: no such feature.
            WinMLError: as `prepare`, `prepare_output` and `require_open` do.
        """
        state = self.session_state
        engine = state.require_open()
        feature, is_input = state.find(name)
        if not is_input:
            return prepare_output(value, feature, properties, engine)
        slot = self._inputs.get(feature.name)
        before = None if slot is None else slot.plan
        files = files and not state.is_silent
        prepared = prepare(value, feature, properties, location=engine.location, plan=before, files=files)
        plan = prepared.plan
        if plan is not None and plan is not before:
            missing = state.missing_contracts
            if not (plan.is_stated and plan.contract in missing.sound):
                missing.warn(plan, properties)
        return prepared

    def put(self, prepared: Prepared | OutputSlot) -> None:
        """Binds a value that was prepared; reads its file, and decodes and tensorizes its pictures.

        Raises:
            WinMLError: a file or a picture cannot be read, or does not fit; a number does not fit into float16; or the
                device was lost.
        """
        if isinstance(prepared, OutputSlot):
            with self._lock:
                self._put_output(prepared)
            return
        if prepared.is_deferred:
            value = open_deferred(prepared)
            opened = self.prepare(prepared.feature.name, value, prepared.properties, files=False)
            assert isinstance(opened, Prepared)
            prepared = opened._replace(value=prepared.value)
        name = prepared.feature.name
        with self._lock:
            slot = self._inputs.get(name)
            if slot is None:
                slot = self._inputs[name] = InputSlot()
            try:
                slot.put(prepared, self.bound, self._tensorizer, self._buffer_caches)
            except DeviceLostError as error:  # raised by tensorizing on the device
                self.session_state.lose(error)
                raise
            self.values[name] = prepared.value
            if prepared.plan is not None:
                self._placements[name] = prepared.plan.placements
            elif self._placements:
                self._placements.pop(name, None)
            self._is_ready = False

    def _put_output(self, slot: OutputSlot) -> None:
        self.bound.set_output(slot.name, slot.memory)
        self._outputs[slot.name] = slot
        self.values[slot.name] = slot.value
        self._is_ready = False

    def _renew(self, engine: Engine) -> None:
        """Looks, before a run, whether bound tensors are valid and have the memory that is bound; else binds it.

        Raises:
            IllegalCallError: an input is a tensor that a failed evaluation was to write.
            WinMLError: a tensor no longer fits, or a number does not fit into float16.
        """
        for slot in self._inputs.values():
            if slot.refresh() and slot.prepared is not None:
                feature, value = slot.prepared.feature, slot.prepared.value
                prepared = prepare(value, feature, location=engine.location)
                slot.put(prepared, self.bound, self._tensorizer, self._buffer_caches)
                slot.refresh()
        for name, output in self._outputs.items():
            if output.value is not None and output.is_stale:
                self._put_output(prepare_output(output.value, self.session_state.outputs[name], NO_PROPERTIES, engine))
        if engine.location is not None:
            for memory in (*self.bound.inputs.values(), *self.bound.outputs.values()):
                if isinstance(memory, DeviceArray) and memory.handle is None:
                    memory.wait()  # another library may still be working on its array

    def evaluate(self, correlation_id: str = "", stop: Stop | None = None) -> LearningModelEvaluationResult:
        """Runs the model on what is bound.

        Raises:
            MissingInputError: an input has not been bound.
            InvalidBindingError: two outputs are bound to the same memory.
            IllegalCallError: an input is a tensor that a failed evaluation was to write.
            WinMLError: the engine's error.
        """
        session_state = self.session_state
        engine = session_state.require_open()  # before the lock, as in `clear`
        with self._lock if stop is None else hold(self._lock, stop):
            self._renew(engine)
            if not self._is_ready:
                self._require_ready()
            may_have_written = True
            try:
                try:
                    fresh = engine.run(self.bound, stop)
                except (ClosedError, InvalidBindingError):  # the engine raises these before it writes anything
                    may_have_written = False
                    raise
                except EvaluationError as error:
                    self._explain(error)
                    raise
                outputs = {name: slot.receive(fresh.get(name)) for name, slot in self._outputs.items()}
                placements = self.placements  # before the lock is released, and another thread binds a picture
            except BaseException as error:
                if isinstance(error, DeviceLostError):
                    self.session_state.lose(error)
                if may_have_written:
                    self._invalidate_outputs(error)
                raise
        if "EnableDebugOutput" in session_state.properties:
            logger.debug("evaluated %s %r: %r gave %r", session_state, correlation_id, self.values, outputs)
        return LearningModelEvaluationResult(correlation_id, outputs, placements=placements, facts=session_state.facts)

    def _require_ready(self) -> None:
        """Refuses missing inputs and overlapping outputs: not at bind, where two outputs may be swapping arrays."""
        if not self.values.keys() >= self.session_state.input_names:
            missing = [feature for name, feature in self.session_state.inputs.items() if name not in self.values]
            expected = ", ".join(f"{feature.name} ({feature.expects()})" for feature in missing)
            raise MissingInputError(f"Missing Input: {expected}.", hint="Bind every input before evaluate().")
        if len(self.values) > len(self.session_state.input_names) + 1:
            require_no_overlap(self._outputs)
        self._is_ready = True

    def _invalidate_outputs(self, reason: BaseException) -> None:
        """Invalidates bound outputs, which may be half written, or hold the numbers of an earlier run.

        Args:
            reason: why the run ended; it then says which outputs cannot show that they are invalid.
        """
        kept = []
        for name, slot in self._outputs.items():
            try:
                slot.invalidate()
            except Exception as error:  # memory that can no longer be written must not hide why the run ended
                logger.warning("The output %s keeps its contents from before the failed run: %s", name, error)
            if isinstance(slot, TensorOutput) and slot.keeps_values:
                kept.append(name)
        if kept:
            text = f"Do not read {', '.join(kept)}: arrays of booleans cannot show that they are invalid."
            if isinstance(reason, WinMLError):
                reason.hint = f"{reason.hint} {text}".lstrip()
                reason.args = (f"{reason.message} {reason.hint}",)
            else:
                reason.add_note(text)

    def _explain(self, error: EvaluationError) -> None:
        """Adds a hint to the engine's error, and raises it, if a picture kept its own size: that is often the cause."""
        if type(error) is not EvaluationError or error.__cause__ is not None:  # a custom operator raised the cause
            return
        free_sizes = [
            f"the picture for {name} kept its own size, {slot.plan.sizes[0][0]}x{slot.plan.sizes[0][1]}"
            for name, slot in self._inputs.items()
            if slot.plan is not None and slot.plan.keeps_own_size and name in self.values
        ]
        if not free_sizes:
            return
        raise EvaluationError(
            f"{error.message} The model takes any size, and {', '.join(free_sizes)}.",
            hint=f"{error.hint} If the model requires one size, specify ImageContract(size=(height, width)). If sides "
            "must be multiples of a stride, use a scaling with pad_multiple.".lstrip(),
            hresult=error.hresult,
        ) from error

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where the bound pictures lie in their tensors, by the names of inputs."""
        if not self._placements:
            return {}
        return {name: tuple(map(PicturePlacement, placements)) for name, placements in self._placements.items()}
