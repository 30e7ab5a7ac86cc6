"""Models as commands take them: evaluated, loaded with a contract, as cases to evaluate; and files to be copied."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.base.agreement import as_numpy, compare_outputs
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    ShapedDescriptor,
)
from ..core.features.pictures import ImageFeatureValue, PreprocessPlan
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.contract import ImageContract
from ..core.model.contracts import fitting_inputs
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import messages
from ..core.runtime.custom.operator import ModelOperators, Operators
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import LearningModelDeviceKind, Precision
from ..errors import ConversionError, InvalidArgumentError
from . import trial
from .examples import NOTHING_STATED, ExampleShape, StatedSizes, example_shape

if TYPE_CHECKING:
    import onnx


def evaluate_all_outputs(model: LearningModel, inputs: Mapping[str, object]) -> dict[str, Any]:
    """Evaluates a model once, on the CPU, on a value for each input; batches may have any size.

    Returns:
        The outputs by name: new arrays, also where an output is a picture, and lists and dicts of what other outputs
        hold.
    """
    with LearningModelSession(model) as session:
        return evaluate_by(session, inputs)


def evaluate_by(session: LearningModelSession, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a session once, as `evaluate_all_outputs` does: no output is rounded to a picture."""
    binding = LearningModelBinding(session)
    for name, value in inputs.items():
        binding.bind(name, value)
    for feature in session.model.output_features:
        if feature.name in inputs or not isinstance(feature, ShapedDescriptor):  # an input may be an output, too
            continue
        if feature.tensor_kind in TENSOR_CLASSES:
            binding.bind(feature.name, TENSOR_CLASSES[feature.tensor_kind].create())
    return {name: as_numpy(value) for name, value in session.evaluate(binding).outputs.items()}


def evaluate_apart(source: bytes | str, operators: ModelOperators, inputs: Mapping[str, object]) -> dict[str, Any]:
    """Evaluates a model that nobody has compiled before, in another process.

    Args:
        source: the model's bytes, or its path.
        operators: the program's. With functions among them, which another process may not have, it is evaluated here.
        inputs: as for `evaluate_all_outputs`.

    Raises:
        ProcessEndedError: the runtime ended that process.
    """
    if operators.functions:
        return _evaluated_source(source, operators.given, inputs)
    return trial.call(_evaluated_source, source, operators.libraries, dict(inputs))


def _evaluated_source(source: bytes | str, operators: Operators, inputs: Mapping[str, object]) -> dict[str, Any]:
    return evaluate_all_outputs(LearningModel.load(source, operators=operators), inputs)


def require_same_results(
    expected: Mapping[str, object], came: Mapping[str, object], tolerance: float, what: str, hint: str
) -> float:
    """Refuses a model that was made of others, and does not give what they give. Returns the largest difference.

    Args:
        expected: what they give.
        came: what it gives, by the same names.
        tolerance: the largest difference in an output, over its largest magnitude.
        what: the models, as subject and object: "The joined model does not give what the two models give".
        hint: what else could be tried.

    Raises:
        ConversionError: they differ by more than the tolerance.
    """
    agreement = compare_outputs(expected, came, tolerance)
    if not agreement.is_good:
        raise ConversionError(f"{what}: {agreement}; nothing was written.", hint=hint)
    return agreement.error


# Loading a model for a command, with the contract that the user states for its pictures.


def load_model(
    path: str | os.PathLike[str], contract: ImageContract | None = None, operators: Operators = ()
) -> LearningModel:
    """Loads a model with operators of the program's, and attaches a contract to every input that it fits."""
    model = LearningModel.load(path, operators=operators)
    if contract is not None:
        for feature in fitting_inputs(model.input_features, contract):
            model.contracts[feature.name] = contract
    return model


# The sizes that the inputs of an evaluation had, for reports.


def input_sizes(features: Iterable[FeatureDescriptor], given: Mapping[str, object]) -> dict[str, ExampleShape]:
    """The shape of each input that is a tensor or a picture: of the value given, or else of its example."""
    return {
        feature.name: ExampleShape(_shape(feature, given[feature.name]))
        if feature.name in given
        else example_shape(feature)
        for feature in features
        if isinstance(feature, ShapedDescriptor)
    }


def _shape(feature: FeatureDescriptor, value: Any) -> tuple[int, ...]:
    if isinstance(value, ImageFeatureValue):
        return PreprocessPlan(value, feature).shape
    return tuple(np.shape(value))


def to_json(sizes: Mapping[str, ExampleShape]) -> dict[str, Any]:
    """Sizes, ready for JSON."""
    return {name: size.to_json() for name, size in sizes.items()}


EXAMPLE = "example inputs"
"""What reports name in the place of an input, where values are made up."""


def _require_multiples(size: tuple[int, int], stride: str) -> None:
    """Refuses a size that is not a multiple of the stride in a detector's metadata, as its exporter does."""
    step = int(stride) if stride.isdecimal() and len(stride) < 5 else 0
    if step and any(side % step for side in size):
        height, width = (-(-side // step) * step for side in size)
        raise InvalidArgumentError(
            f"The size is {size[0]},{size[1]}; by the stride in its metadata, the model takes multiples of {step}.",
            hint=f"Write --size {height},{width}.",
        )


_KINDS = {
    "cpu": LearningModelDeviceKind.CPU,
    "gpu-high-performance": LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE,
    "gpu-min-power": LearningModelDeviceKind.DIRECTX_MIN_POWER,
}
"""Devices that are named by what they are for."""


@dataclass(frozen=True)
class Case:
    """A model, where it runs, and on which inputs.

    Attributes:
        model: the path of an .onnx file.
        inputs: files, as `winml-py run` takes them; none for example inputs.
        device: "cpu", "gpu-high-performance", "gpu-min-power", or a name that `LearningModelDevice.find` finds.
        engine: as `LearningModelSessionOptions.engine`.
        precision: as `LearningModelSessionOptions.precision`.
        settings: a file that `LearningModelSessionOptions.load` reads, or "". It replaces engine and precision.
        contract: how pictures become the inputs that it fits; None for what the model states.
        sizes: what is stated of sizes that the model leaves free: sessions fix them.
        isolated: whether the engine gets a process of its own, whatever the settings say.
    """

    model: str
    inputs: tuple[str, ...] = ()
    device: str = "cpu"
    engine: str | None = None
    precision: Precision = Precision.AUTO
    settings: str = ""
    contract: ImageContract | None = None
    sizes: StatedSizes = NOTHING_STATED
    isolated: bool = False

    def load(self) -> LearningModel:
        """The model, with the contract attached. A stated size of pictures replaces that of the contract.

        Raises:
            WinMLError: it cannot be loaded, the contract fits no input, or the size is not one of the model's.
        """
        model = load_model(self.model, self.contract)
        if self.sizes.picture is not None:
            _require_multiples(self.sizes.picture, model.metadata.get("stride", ""))
            for feature in model.input_features:
                if isinstance(feature, ImageFeatureDescriptor) and feature.contract.size is not None:
                    model.contracts[feature.name] = replace(feature.contract, size=None)
        return model

    def options(self, model: LearningModel) -> LearningModelSessionOptions:
        """The session's options. A free batch stays free, unless a size is stated for it.

        Raises:
            InvalidArgumentError: the model has no such dimension, or the file holds no options.
        """
        options = LearningModelSessionOptions.load(self.settings) if self.settings else LearningModelSessionOptions()
        if not self.settings:
            options.batch_size_override = 0
            options.engine, options.precision = self.engine, self.precision
        for name, shape in self.sizes.shapes(model.input_features).items():
            options.override_input_shape(name, shape)
        if self.isolated and options.isolation is None:
            options.isolation = "process"
        return options

    def find_device(self) -> LearningModelDevice:
        """The device; InvalidDeviceError where there is none of that name."""
        kind = _KINDS.get(self.device.casefold())
        return LearningModelDevice.find(self.device) if kind is None else LearningModelDevice(kind)


# Model files of which a changed copy is written.


PROTOBUF_LIMIT = 1_900_000_000
"""Bytes of weights from which a model is written with them in a file beside it: protobuf's own limit is 2 GiB."""


def read_for_copy(source: str | os.PathLike[str], destination: str | os.PathLike[str]) -> onnx.ModelProto:
    """Reads a model without its external weights, for a copy in the same folder, which refers to the same files."""
    import onnx

    model = onnx.load(source, load_external_data=False)
    folders = {os.path.dirname(os.path.abspath(path)) for path in (source, destination)}
    if len(folders) > 1 and has_external_weights(model):
        raise InvalidArgumentError(
            f"The weights of {os.fspath(source)} lie in files beside it, and the copy is to lie elsewhere.",
            hint="Write the copy into the same folder.",
        )
    return model


def has_external_weights(model: onnx.ModelProto) -> bool:
    """Whether a weight of any graph lies in another file."""
    from onnx import TensorProto

    tensors = (part for part in messages(model) if isinstance(part, TensorProto))
    return any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors)


def convert_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """A copy of a model with its nodes brought to a version of ONNX's own operator set, by onnx's converter.

    The converter loses denotations, functions and metadata, and what inference had found is no longer true of it: so
    its nodes and weights are taken, and the rest is the model's.

    Raises:
        ValueError: the converter cannot convert the model, or what it made does not hold together; in its own words.
    """
    import onnx
    from onnx import shape_inference, version_converter

    result = onnx.ModelProto()
    result.CopyFrom(model)
    # Before version 4 of the format all weights are inputs, too. Runtimes take models where they are not; the converter
    # does not.
    result.ir_version = max(result.ir_version, 4)
    try:
        converted = version_converter.convert_version(result, version)
        onnx.checker.check_model(converted)
        shape_inference.infer_shapes(converted, strict_mode=True)
    except Exception as error:  # of many classes, RuntimeError and IndexError among them
        raise ValueError((str(error).strip().splitlines() or ["it says nothing"])[0]) from error
    for field in ("node", "initializer"):
        result.graph.ClearField(field)
        getattr(result.graph, field).extend(getattr(converted.graph, field))
    result.graph.ClearField("value_info")
    del result.opset_import[:]
    result.opset_import.extend(converted.opset_import)
    return result
