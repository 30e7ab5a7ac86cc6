"""Cases: a model, its device and its inputs, as commands state them; and evaluating a model once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.base import child_calls
from ..core.base.agreement import as_numpy
from ..core.base.arguments import require_type
from ..core.contracts.exporters import ExporterFacts
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue, PreprocessPlan
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.contract import ImageContract
from ..core.model.contracts import find_fitting_inputs
from ..core.model.model import LearningModel
from ..core.runtime.custom.operator import ModelOperators, Operators
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.result import LearningModelEvaluationResult
from ..core.session.session import LearningModelBinding, LearningModelSession
from ..enums import LearningModelDeviceKind, Precision
from ..errors import InvalidArgumentError
from .examples import NOTHING_STATED, ExampleShape, StatedSizes, find_example_shape


def evaluate_model(model: LearningModel, inputs: Mapping[str, object]) -> dict[str, Any]:
    """Evaluates a model once, on the CPU, with a value for each input; batches may have any size.

    Returns:
        The outputs by name: new arrays, even for picture outputs; lists and dicts for sequences and maps.
    """
    with LearningModelSession(model) as session:
        return evaluate_to_arrays(session, inputs)


def evaluate_to_arrays(session: LearningModelSession, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a session once, like `evaluate_model`."""
    return {name: as_numpy(value) for name, value in evaluate_to_tensors(session, inputs).outputs.items()}


def evaluate_to_tensors(session: LearningModelSession, inputs: Mapping[str, Any]) -> LearningModelEvaluationResult:
    """Evaluates a session once. Outputs that are pictures are bound to tensors, so that nothing is rounded."""
    binding = LearningModelBinding(session)
    for name, value in inputs.items():
        binding.bind(name, value)
    for feature in session.model.output_features:
        if feature.name in inputs or not isinstance(feature, ShapedDescriptor):  # an input may also be an output
            continue
        if feature.tensor_kind in TENSOR_CLASSES:
            binding.bind(feature.name, TENSOR_CLASSES[feature.tensor_kind].create())
    return session.evaluate(binding)


def evaluate_in_child(source: bytes | str, operators: ModelOperators, inputs: Mapping[str, object]) -> dict[str, Any]:
    """Evaluates a new model in another process, which its runtime may end.

    Args:
        source: the model's bytes, or its path.
        operators: the program's operators. With functions, which another process may lack, it is evaluated here.
        inputs: as for `evaluate_model`.

    Raises:
        ProcessEndedError: the runtime ended that process.
    """
    if operators.functions:
        return _evaluate_source(source, operators.given, inputs)
    return child_calls.call_in_child(_evaluate_source, source, operators.libraries, dict(inputs))


def _evaluate_source(source: bytes | str, operators: Operators, inputs: Mapping[str, object]) -> dict[str, Any]:
    return evaluate_model(LearningModel.load(source, operators=operators), inputs)


def load_model(
    path: str | os.PathLike[str], contract: ImageContract | None = None, operators: Operators = ()
) -> LearningModel:
    """Loads a model with the program's operators, and attaches a contract to every input that it fits."""
    model = LearningModel.load(path, operators=operators)
    if contract is not None:
        for feature in find_fitting_inputs(model.input_features, contract):
            model.contracts[feature.name] = contract
    return model


def find_input_sizes(features: Iterable[FeatureDescriptor], values: Mapping[str, Any]) -> dict[str, ExampleShape]:
    """The shape of each tensor or picture input: that of its value if it has one, else that of its example."""
    sizes = {}
    for feature in features:
        if not isinstance(feature, ShapedDescriptor):
            continue
        value = values.get(feature.name)
        if value is None:
            sizes[feature.name] = find_example_shape(feature)
        elif isinstance(value, ImageFeatureValue):
            sizes[feature.name] = ExampleShape(PreprocessPlan(value.sizes, feature).shape)
        else:
            sizes[feature.name] = ExampleShape(np.shape(value))
    return sizes


def sizes_to_json(sizes: Mapping[str, ExampleShape]) -> dict[str, Any]:
    """Sizes, ready for JSON."""
    return {name: size.to_json() for name, size in sizes.items()}


EXAMPLE = "example inputs"
"""What reports print instead of the name of an input file."""

CONTRACTS: dict[str, Callable[[], ImageContract]] = {
    "imagenet": ImageContract.imagenet,
    "inception": ImageContract.inception,
    "yolo": ImageContract.yolo,
    "clip": ImageContract.clip,
    "windows": ImageContract,
}
"""The contracts that commands have names for."""

DEVICE_KINDS = {
    "cpu": LearningModelDeviceKind.CPU,
    "gpu-high-performance": LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE,
    "gpu-min-power": LearningModelDeviceKind.DIRECTX_MIN_POWER,
}
"""Devices that are named by purpose."""


@dataclass(frozen=True)
class Case:
    """A model, its device and its inputs.

    Attributes:
        model: the path of an .onnx file.
        inputs: files, as in `winml-py run`; none for example inputs.
        device: "cpu", "gpu-high-performance", "gpu-min-power", or a name that `LearningModelDevice.find` finds. Unlike
            sessions, a case takes a name, because cases also come from the command line.
        engine: as `LearningModelSessionOptions.engine`.
        precision: as `LearningModelSessionOptions.precision`.
        settings: a file that `LearningModelSessionOptions.load` reads, or "". It replaces engine and precision.
        contract: the contract of the inputs that it fits; None for the model's own.
        sizes: stated values for sizes that the model leaves free; sessions fix them.
        isolated: whether the engine gets a separate process, even if the settings say otherwise.
    """

    model: str = ""
    inputs: tuple[str, ...] = ()
    device: str = "cpu"
    engine: str | None = None
    precision: Precision = Precision.AUTO
    settings: str = ""
    contract: ImageContract | None = None
    sizes: StatedSizes = NOTHING_STATED
    isolated: bool = False

    def __post_init__(self) -> None:
        require_type(self.inputs, tuple | list, 'Write inputs=("picture.png",).')
        require_type(self.device, str, 'Write its name: device="gpu".')
        require_type(self.contract, ImageContract | None, "Write contract=ImageContract.imagenet().")
        require_type(self.sizes, StatedSizes, "Write sizes=StatedSizes(picture=(480, 640)).")

    def load(self) -> LearningModel:
        """Loads the model, and attaches the contract. A stated picture size replaces the contract's.

        Raises:
            WinMLError: the model cannot be loaded, the contract fits no input, or the model does not have the size.
        """
        model = load_model(self.model, self.contract)
        if self.sizes.picture is None:
            return model
        stride = ExporterFacts.from_metadata(model.metadata).stride
        if stride and any(side % stride for side in self.sizes.picture):
            stated_size = ",".join(map(str, self.sizes.picture))
            height, width = (math.ceil(side / stride) * stride for side in self.sizes.picture)
            raise InvalidArgumentError(
                f"Expected a size in multiples of {stride}, the stride in the model's metadata, got {stated_size}.",
                hint=f"Write --size {height},{width}, or in Python StatedSizes(picture=({height}, {width})).",
            )
        for feature in model.input_features:
            if isinstance(feature, ImageFeatureDescriptor) and feature.contract.size is not None:
                model.contracts[feature.name] = replace(feature.contract, size=None)
        return model

    def options(self, model: LearningModel) -> LearningModelSessionOptions:
        """Makes the session's options. A free batch stays free, unless its size is stated.

        Raises:
            InvalidArgumentError: the model has no such dimension, or the file holds no options.
        """
        if self.settings:
            options = LearningModelSessionOptions.load(self.settings)
        else:
            options = LearningModelSessionOptions()
            options.batch_size_override = 0
            options.engine, options.precision = self.engine, self.precision
        for name, shape in self.sizes.find_shapes(model.input_features).items():
            options.override_input_shape(name, shape)
        if self.isolated and options.isolation is None:
            options.isolation = "process"
        return options

    def find_device(self) -> LearningModelDevice:
        """Finds the device. Raises InvalidDeviceError if none has the name."""
        kind = DEVICE_KINDS.get(self.device.casefold())
        return LearningModelDevice.find(self.device) if kind is None else LearningModelDevice(kind)
