"""Evaluation: what is bound to each input and output, and the run on it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

from ...errors import ClosedError, DeviceLostError, EvaluationError, MissingInputError
from ..base.cancellation import Stop, held
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.descriptors import FeatureDescriptor
from ..features.float16_cast import as_half
from ..features.resolve import Bindable, Container, DevicePixels, DeviceTensor, HostTensor, PictureFit, Pictures
from ..features.tensor import Tensor, storage_of
from ..features.tensor_classes import TensorString
from ..features.tensor_storage import TensorStorage
from ..imaging.picture_placement import PicturePlacement
from ..runtime.engine import DeviceEngineBinding
from .checked_values import CheckedOutput, checked_input, checked_output
from .compiled import Compiled
from .outputs import OutputSlot, UnboundOutput, require_apart
from .picture_inputs import PictureInputs, PictureTensor


class Evaluation:
    """The inside of a binding. Its lock makes threads that use one binding take turns.

    Attributes:
        compiled: what it runs on.
        bound: the caller's own objects, by the names of features.
        engine_binding: the engine's own binding.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        # Only a binding on a device is given arrays of one: `_required_here` and `_tensor_slot` see to that.
        self.engine_binding = cast(DeviceEngineBinding, self.compiled.engine.bind(self.compiled.lock))
        self._pictures: PictureInputs | None = None
        self._given: dict[str, TensorStorage] = {}  # the tensors among the inputs, which another evaluation may write
        self._fits: dict[str, PictureFit] = {}
        self.bound: dict[str, Any] = {}
        self._is_checked = True
        self._missing = set(self.compiled.inputs)
        self._slots: dict[str, OutputSlot] = {
            name: UnboundOutput(feature) for name, feature in self.compiled.outputs.items()
        }

    @property
    def pictures(self) -> PictureInputs:
        """The tensors of bound pictures."""
        if self._pictures is None:
            self._pictures = PictureInputs(self.compiled)
        return self._pictures

    def clear(self) -> None:
        """Unbinds everything, and lets go of the memory that pictures were turned into."""
        self.compiled.require_open()  # before the lock, which in a forked process nobody might release
        with self._lock:
            self._reset()

    def forget(self) -> None:
        """Unbinds everything, for other values to come: what is not bound again is missing, or a new object.

        The engine's binding and the memory of pictures are kept, because making them anew costs more than most runs.
        """
        with self._lock:
            for name in self.bound.keys() & self._slots.keys() - self.compiled.inputs.keys():
                self.engine_binding.set_output(name, None)
                self._slots[name] = UnboundOutput(self.compiled.outputs[name])
            self._missing = set(self.compiled.inputs)
            self._given, self.bound = {}, {}

    def bind(self, name: str, value: Any, properties: BindProperties = NO_PROPERTIES) -> None:
        """Binds a value to the input or output of a name; raises as `Compiled.find`, `bind_input` and `bind_output`."""
        descriptor, is_input = self.compiled.find(name)
        bind = self.bind_input if is_input else self.bind_output
        bind(descriptor, value, properties)

    def bind_input(self, descriptor: FeatureDescriptor, value: Any, properties: BindProperties) -> None:
        """Binds a value to an input; raises as `checked_input` does, and where the session is closed."""
        self.compiled.require_open()  # before a picture is decoded, and before the lock, as in `clear`
        found = checked_input(value, descriptor, properties, self.compiled.location, self._fits.get(descriptor.name))
        self.set_input(descriptor, value, found)
        self.compiled.missing_contracts.tell(found, properties)  # without the lock: it calls what the program says

    def set_input(self, descriptor: FeatureDescriptor, value: Any, found: Bindable) -> None:
        """Binds what `checked_input` found in a value."""
        with self._lock:
            self._given.pop(descriptor.name, None)
            try:
                self._set_input(descriptor, found)
            except DeviceLostError:  # a picture is tensorized there
                self.compiled.is_lost = True
                raise
            self._missing.discard(descriptor.name)
            self.bound[descriptor.name] = value
            if isinstance(value, Tensor):
                self._given[descriptor.name] = storage_of(value)

    def _set_input(self, descriptor: FeatureDescriptor, value: Bindable) -> None:
        name = descriptor.name
        if isinstance(value, Pictures):
            self._set_picture(name, self.pictures.write(value))
            self._fits[name] = value.fit
            return
        if isinstance(value, DevicePixels):
            self._set_picture(name, self.pictures.write_pixels(value))
            return
        if isinstance(value, Container):
            self.engine_binding.set_input(name, value.converted)
        elif isinstance(value, DeviceTensor):
            self.engine_binding.set_input(name, value.array)
        else:
            self._set_tensor(descriptor, value)
        if self._pictures is not None:
            self._pictures.forget(name)

    def _set_tensor(self, descriptor: FeatureDescriptor, value: HostTensor) -> None:
        tensor = value.tensor
        array = (as_half(tensor, descriptor) if value.is_cast else tensor).to_numpy()
        # Strings have no common memory that a later write could reach: they are copied now.
        self.engine_binding.set_input(descriptor.name, array.copy() if isinstance(tensor, TensorString) else array)

    def _set_picture(self, name: str, tensor: PictureTensor) -> None:
        if self.pictures.tensors.get(name) is not tensor:
            self.engine_binding.set_input(name, tensor)
            self.pictures.tensors[name] = tensor

    def bind_output(self, descriptor: FeatureDescriptor, bound: Any, properties: BindProperties) -> None:
        """Binds what an output is to be written into; raises as `checked_output`, and where the session is closed."""
        self.compiled.require_open()
        self.set_output(descriptor, bound, checked_output(bound, descriptor, properties, self.compiled.location))

    def set_output(self, descriptor: FeatureDescriptor, bound: Any, checked: CheckedOutput) -> None:
        """Binds what `checked_output` found in a value."""
        name = descriptor.name
        with self._lock:
            checked.set(self.engine_binding, name)
            self._slots[name] = checked.slot
            self.bound[name] = bound
            self._is_checked = False

    def run(self, stop: Stop | None = None) -> dict[str, Any]:
        """Runs the model; gives the caller's object for each output, by name.

        Raises:
            MissingInputError: an input has not been bound.
            IllegalCallError: an input is a tensor that another evaluation was to write, and that failed.
            WinMLError: what the engine raises.
        """
        with self._lock if stop is None else held(self._lock, stop):
            if self._missing:
                raise self._missing_inputs()
            for storage in self._given.values():
                storage.require_valid()
            if not self._is_checked:  # not at bind, where two outputs may just be swapping their arrays
                require_apart(self._slots)
                self._is_checked = True
            try:
                fresh = self.engine_binding.run(stop)
                return {name: slot.receive(fresh.get(name)) for name, slot in self._slots.items()}
            except ClosedError:  # before it began
                raise
            except BaseException as error:
                # Whatever ended the run, what is bound may be half written, or hold the numbers of an earlier run.
                for slot in self._slots.values():
                    slot.invalidate()
                if isinstance(error, DeviceLostError):
                    self.compiled.is_lost = True
                explained = self._explained(error) if type(error) is EvaluationError else error
                if explained is error:  # raised from itself, it would lose its cause
                    raise
                raise explained from error

    def _explained(self, error: EvaluationError) -> EvaluationError:
        """The engine's error, and where a picture kept its own size, how to state one: that is often the reason."""
        own_sizes = {} if self._pictures is None else self._pictures.own_sizes
        sizes = {name: size for name, size in own_sizes.items() if name in self.bound}
        if not sizes or error.__cause__ is not None:  # an operator of the program's own said why
            return error
        own = ", ".join(f"the picture for {name} kept its own size, {w}x{h}" for name, (w, h) in sizes.items())
        return EvaluationError(
            f"{error.message} The model takes any size, and {own}.",
            hint="If the model was made for one, state it: ImageContract(size=(height, width)), or a scaling with "
            "pad_multiple for sides that must be multiples of a stride.",
        )

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where the pictures that are bound lie in their tensors, by the names of inputs."""
        if self._pictures is None:
            return {}
        return {name: found for name, found in self._pictures.placements.items() if name in self.bound}

    def _missing_inputs(self) -> MissingInputError:
        missing = [feature for name, feature in self.compiled.inputs.items() if name in self._missing]
        expected = ", ".join(f"{feature.name} ({feature.expects()})" for feature in missing)
        return MissingInputError(f"Missing Input: {expected}.", hint="Bind every input before evaluate().")


def bound_at_once(compiled: Compiled, features: Mapping[str, Any]) -> Evaluation:
    """An evaluation of values by the names of inputs and outputs.

    Raises:
        WinMLError: as a bind does.
    """
    evaluation = Evaluation(compiled)
    for name, value in features.items():
        evaluation.bind(name, value)
    return evaluation
