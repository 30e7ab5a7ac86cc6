"""What capabilities share: sessions of what a caller passes, inputs of texts, outputs as numbers, pictures as bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from .core.base.agreement import as_numpy
from .core.base.arguments import require_type
from .core.base.arrays import Array
from .core.base.collections import NameMap
from .core.features.descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
)
from .core.features.files import is_file, read_file
from .core.features.prepare import as_picture
from .core.features.tensor import Tensor
from .core.features.tensor_classes import TENSOR_CLASSES
from .core.imaging.contract import ImageContract
from .core.imaging.pixels import INTERLEAVED_FORMATS, find_layout
from .core.model.contracts import find_fitting_inputs
from .core.model.model import LearningModel
from .core.runtime.custom.operator import Operators
from .core.runtime.device import LearningModelDevice
from .core.session.options import LearningModelSessionOptions
from .core.session.result import LearningModelEvaluationResult
from .core.session.session import LearningModelSession
from .core.session.sources import convert_numbers
from .enums import BitmapPixelFormat, TensorKind
from .errors import InvalidArgumentError

CONTRACTS: dict[str, Callable[[], ImageContract]] = {
    "imagenet": ImageContract.imagenet,
    "inception": ImageContract.inception,
    "yolo": ImageContract.yolo,
    "clip": ImageContract.clip,
    "windows": ImageContract,
    "windowsml": ImageContract.windowsml,
}
"""The contracts that have names on the command line and on the page."""

# Models and sessions

_LOAD = "Load the model first with LearningModel.load(path)."


def load_model(
    path: str | os.PathLike[str], contract: ImageContract | None = None, operators: Operators = ()
) -> LearningModel:
    """Loads a model with the program's operators, and attaches a contract to every input that it fits."""
    model = LearningModel.load(path, operators=operators)
    if contract is not None:
        for feature in find_fitting_inputs(model.input_features, contract):
            model.contracts[feature.name] = contract
    return model


@contextmanager
def open_session(session_or_model: LearningModelSession | LearningModel) -> Iterator[LearningModelSession]:
    """The caller's session, which stays open; or a session of a model on the CPU, for the block."""
    require_type(session_or_model, LearningModelSession | LearningModel, _LOAD)
    if isinstance(session_or_model, LearningModelSession):
        yield session_or_model
    else:
        with LearningModelSession(session_or_model) as session:
            yield session


def get_session_arguments(
    session_or_model: LearningModelSession | LearningModel,
) -> tuple[LearningModel, LearningModelDevice | None, LearningModelSessionOptions]:
    """The model, the device and a copy of the options, for another session of the same kind. Batches stay free."""
    require_type(session_or_model, LearningModelSession | LearningModel, _LOAD)
    if isinstance(session_or_model, LearningModel):
        return session_or_model, None, make_free_options()
    return session_or_model.model, session_or_model.device, session_or_model.options or make_free_options()


def make_free_options() -> LearningModelSessionOptions:
    """New options, by which batches stay free, as in a session without options."""
    options = LearningModelSessionOptions()
    options.batch_size_override = 0
    return options


# Inputs


def parse_value(feature: FeatureDescriptor, text: str) -> Any:
    """The value of an input as a user wrote it: JSON, numbers separated by spaces or commas, or a text.

    Raises:
        InvalidArgumentError: the text holds other numbers than the input takes. Binding checks lists and maps.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(feature, ShapedDescriptor) and feature.tensor_kind is TensorKind.STRING:
        return value if isinstance(value, list) else text
    return _convert(feature, text.replace(",", " ").split() if value is None else value, text[:60])


def _convert(feature: FeatureDescriptor, value: Any, text: str) -> Any:
    """A value from JSON, with numbers in the feature's type; messages begin with the text."""
    if isinstance(feature, SequenceFeatureDescriptor) and isinstance(value, list):
        return [_convert(feature.element_descriptor, element, text) for element in value]
    if isinstance(feature, MapFeatureDescriptor) and isinstance(value, dict):
        has_numbers = feature.key_kind is TensorKind.INT64  # keys of JSON are texts
        is_number = [has_numbers and key.removeprefix("-").isdecimal() for key in value]
        return {int(key) if number else key: item for number, (key, item) in zip(is_number, value.items(), strict=True)}
    if not isinstance(feature, ShapedDescriptor):
        return value
    array = np.array(value, object)
    shape = array.shape if array.ndim == len(feature.shape) else ()
    return convert_numbers(feature, array.reshape(-1).tolist(), text, shape)


def match_inputs(model: LearningModel, values: Mapping[str, Any], *, any_name: bool = False) -> dict[str, Any]:
    """Values by the model's own names of its inputs, for several evaluations: files are read.

    A bound output is refused: all results would share its memory.

    Args:
        model: the model.
        values: values by the names of inputs, exact or in another case.
        any_name: whether a value for the only input may have any name but an output's.

    Raises:
        InvalidArgumentError: a name is no input's, or that of the same input as another; or a file cannot be read.
        PictureError: a file is not a picture.
    """
    require_type(values, Mapping, "Pass a dict of input names and values.")
    features = NameMap({feature.name: feature for feature in model.input_features})
    outputs = NameMap({feature.name: feature for feature in model.output_features})
    is_renamed = any_name and len(features) == len(values) == 1
    matched: dict[str, Any] = {}
    for key, value in values.items():
        feature = features.get(key)
        if feature is None and is_renamed and key not in outputs:
            (feature,) = features.values()
        if feature is None or feature.name in matched:
            problem = "is not an input of the model" if feature is None else "specifies the same input as another name"
            raise InvalidArgumentError(f"{key!r} {problem}.", hint=f"Pass a value for each of: {', '.join(features)}.")
        is_path = isinstance(value, (str, os.PathLike)) and find_bytes_format(model, feature) is not None
        matched[feature.name] = read_file(value) if is_path or is_file(value, feature) else value
    return matched


# Outputs


def make_output_tensors(model: LearningModel) -> dict[str, Tensor]:
    """An empty tensor to bind to each output that is a tensor or a picture, so that no picture is rounded to levels."""
    return {
        feature.name: TENSOR_CLASSES[feature.tensor_kind].create()
        for feature in model.output_features
        if isinstance(feature, ShapedDescriptor) and feature.tensor_kind in TENSOR_CLASSES
    }


def evaluate_to_tensors(session: LearningModelSession, inputs: Mapping[str, Any]) -> LearningModelEvaluationResult:
    """Evaluates a session once. Outputs that are pictures are tensors."""
    return session.evaluate_features(make_output_tensors(session.model) | dict(inputs))  # an input may be an output


def evaluate_to_arrays(session: LearningModelSession, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a session once.

    Returns:
        The outputs by name: new arrays, even for picture outputs; lists and dicts for sequences and maps.
    """
    return {name: as_numpy(value) for name, value in evaluate_to_tensors(session, inputs).outputs.items()}


def flatten_outputs(outputs: Mapping[str, object]) -> dict[str, Array]:
    """Outputs as arrays: of lists and maps, one for each element."""
    return {name: array for key, value in outputs.items() for name, array in _flatten_output(key, as_numpy(value))}


KEYS = ", keys"
"""The suffix of a map's name for its keys."""


def _flatten_output(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from _flatten_output(f"{name}[{index}]", element)
    elif isinstance(value, Mapping):
        keys = sorted(value)
        yield name, np.array([value[key] for key in keys])
        yield f"{name}{KEYS}", np.array(keys, object)
    else:
        yield name, np.asarray(value)


# Models whose inputs take the bytes of pictures, by a contract that is built in


BUILT_IN = "winml_py.built_in"
"""The metadata key of the format of these pictures, which `build_in` writes."""


def find_bytes_format(model: LearningModel, feature: FeatureDescriptor) -> BitmapPixelFormat | None:
    """The format of the pictures whose bytes an input takes by a contract that is built in; None for other inputs."""
    if not isinstance(feature, TensorFeatureDescriptor) or feature.tensor_kind is not TensorKind.UINT8:
        return None
    formats = {known.name: known for known in INTERLEAVED_FORMATS}
    return formats.get(model.metadata.get(BUILT_IN, ""))


def convert_pictures_to_bytes(model: LearningModel, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by input, with pictures as bytes where a contract is built in.

    Raises:
        InvalidArgumentError: pictures of one batch differ in size.
    """
    converted = dict(values)
    for feature in model.input_features:
        bytes_format = find_bytes_format(model, feature)
        pictures = None if bytes_format is None else as_picture(values.get(feature.name))
        if bytes_format is None or pictures is None:
            continue
        if len(set(pictures.sizes)) > 1:
            sizes = ", ".join(f"{width}x{height}" for width, height in pictures.sizes)
            problem = f"The input {feature.name} takes pictures of one size; these are of {sizes}."
            raise InvalidArgumentError(problem, hint="Pass each picture alone, or scale or crop the pictures first.")
        layout = find_layout(bytes_format)
        mode = {1: "L", 3: "RGB", 4: "RGBA"}[layout.channels]
        # Pillow's gray, as in other programs that decode pictures
        images = [np.asarray(frame.software_bitmap.to_pil().convert(mode)) for frame in pictures.video_frames]
        pixels = np.stack([np.atleast_3d(image) for image in images])[..., [*layout.rgb, 3][: layout.channels]]
        has_batch = isinstance(feature, ShapedDescriptor) and len(feature.shape) == 4
        converted[feature.name] = pixels if has_batch or len(pixels) > 1 else pixels[0]
    return converted
