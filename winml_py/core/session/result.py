"""LearningModelEvaluationResult: the result of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import E_UNEXPECTED, EvaluationError, InvalidArgumentError, NotSupportedError, WinMLError
from ..base.arguments import Labels, require_whole_number
from ..base.arrays import (
    Array,
    DeviceArray,
    DType,
    as_device_array,
    as_host_array,
    can_export_dlpack,
    is_cuda_array,
)
from ..base.collections import ListOutput, MapOutput, NameMap
from ..base.messages import type_name
from ..base.winrt_object import Object
from ..contracts.labels import require_labels
from ..features.descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    is_untyped,
)
from ..features.pictures import ImageFeatureValue
from ..features.prepare import is_buffer
from ..features.tensor import Tensor, wrap_array
from ..features.tensor_classes import CLASSES_BY_DTYPE, TENSOR_CLASSES
from ..imaging.bitmap import VideoFrame
from ..imaging.contract import ImageContract
from ..imaging.detensorize import detensorize
from ..imaging.picture_placement import PicturePlacement
from ..imaging.pixels import BufferCache
from ..runtime.runs import StaysOnDevice, Value

if TYPE_CHECKING:
    from ..features import tensor_classes as tensors

    # Only the model's file states which of these an output is. With a union, every program would need an `isinstance`;
    # with `Any`, no type checker finds a misspelt name. This class has the members of all of them, and is accepted in
    # place of each. The `Any` next to it keeps type checkers from calling an `isinstance` unnecessary.
    class _AnyOutput(  # type: ignore[misc]
        tensors.TensorFloat,
        tensors.TensorFloat16Bit,
        tensors.TensorDouble,
        tensors.TensorInt8Bit,
        tensors.TensorUInt8Bit,
        tensors.TensorInt16Bit,
        tensors.TensorUInt16Bit,
        tensors.TensorInt32Bit,
        tensors.TensorUInt32Bit,
        tensors.TensorInt64Bit,
        tensors.TensorUInt64Bit,
        tensors.TensorBoolean,
        tensors.TensorString,
        ImageFeatureValue,
        VideoFrame,
        ListOutput[Any],
        MapOutput[Any],
    ):
        def __getitem__(self, key: Any) -> Any: ...
        def __iter__(self) -> Iterator[Any]: ...

    Output = _AnyOutput | Any


class ModelFacts(NamedTuple):
    """Facts from the model's file that results offer, or need to read an output.

    Attributes:
        labels: the names of the classes.
        metadata: the model's `metadata_props`.
        outputs: the descriptors of the outputs, by name.
    """

    labels: tuple[str, ...] = ()
    metadata: Mapping[str, str] = NameMap({})
    outputs: Mapping[str, FeatureDescriptor] = NameMap({})


NO_FACTS = ModelFacts()


@dataclass(frozen=True, slots=True)
class Prediction:
    """A class, its score, and its name, or "" if no label was given."""

    index: int
    score: float
    label: str = ""


class LearningModelEvaluationResult(Object):
    """The outputs of one evaluation.

    A failed evaluation raises an error. Only results of `evaluate_many` can be failures: one failed item must not end
    the stream.
    """

    __slots__ = ("_correlation_id", "_error", "_facts", "_index", "_outputs", "_placements", "_source")

    def __init__(
        self,
        correlation_id: str,
        outputs: Mapping[str, object],
        error: WinMLError | None = None,
        placements: Mapping[str, tuple[PicturePlacement, ...]] | None = None,
        facts: ModelFacts = NO_FACTS,
    ) -> None:
        self._placements = placements or {}
        self._correlation_id = correlation_id
        self._outputs = outputs
        self._error = error
        self._facts = facts
        self._source: Any = None
        self._index: int | None = None

    def __getitem__(self, name: str) -> Output:
        """An output: short for `outputs[name]`."""
        return self.outputs[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the outputs."""
        return iter(self.outputs)

    def __contains__(self, name: object) -> bool:
        """Whether there is an output of this name."""
        return name in self.outputs

    @property
    def source(self) -> Any:
        """The item that `evaluate_many` evaluated: the caller's object, the path to a file in a folder, or a video's
        `VideoFrame`. None for a single evaluation. The result keeps it alive.
        """
        return self._source

    @property
    def index(self) -> int | None:
        """The item's position in its stream, from 0; None for a single evaluation."""
        return self._index

    @property
    def correlation_id(self) -> str:
        """The id that was passed to `evaluate`."""
        return self._correlation_id

    @property
    def error_status(self) -> int:
        """0, or the HRESULT of the error, signed as in pywinrt."""
        return 0 if self._error is None else self._error.winerror

    @property
    def error(self) -> WinMLError | None:
        """The error, or None."""
        return self._error

    @property
    def succeeded(self) -> bool:
        """Whether there are outputs."""
        return self._error is None

    @property
    def outputs(self) -> NameMap[Output]:
        """All outputs by name, found in any case.

        A bound output is the object that was bound. The others are new: a tensor of the matching class;
        an `ImageFeatureValue`, or a list of `VideoFrame` objects for a batch; a list or a dict.

        Raises:
            WinMLError: `error`, if the evaluation failed.
        """
        if self._error is not None:
            raise self._error
        return NameMap(self._outputs)

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where each evaluated picture lay in its input's tensor, by the names of inputs: one placement for each
        picture of a batch. They map points, boxes and masks back to the picture.
        """
        return dict(self._placements)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes that the model's file states; empty if it states none."""
        return self._facts.labels

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata in the model's file: a copy of `LearningModel.metadata`."""
        return dict(self._facts.metadata)

    def top_k(
        self, n: int = 5, labels: Labels = (), *, output: str | None = None, row: int | None = None
    ) -> list[Prediction]:
        """The classes with the highest scores, the highest first.

        Args:
            n: how many, at most.
            labels: the names of the classes, by index, or a file with them (see `labels_of`); by default the
                model's, if they fit. Omit them for a map, whose keys are the labels.
            output: the name of the output; by default the only one that holds scores: a row of floats, or a map of
                classes to floats.
            row: which row of a batch, or which map of a list of them, from 0; not needed if there is only one.

        Returns:
            Each with its `index`, `score` and `label`. In a map, the index is the place of the key.

        Raises:
            InvalidArgumentError: n below 1, no such output or row, none or several outputs that hold scores, several
                rows of which none is chosen, labels whose number is not that of the scores, or labels for a map.
            EvaluationError: scores that are NaN or infinite.
            StorageNotFoundError: there is no such file of labels.

        Example:
            >>> from winml_py import LearningModel, LearningModelSession
            >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
            >>> result = next(session.evaluate_many(["samples/pictures/seven.png"]))
            >>> best = result.top_k(1, "zero one two three four five six seven eight nine".split())[0]
            >>> best.index, best.label
            (7, 'seven')
        """
        require_whole_number(n, "The number of classes", 1)
        if row is not None:
            require_whole_number(row, "The row", 0)
        outputs = self.outputs
        names = list(outputs) if output is None else [output]
        if output is not None and output not in outputs:
            raise InvalidArgumentError(f"The model has no output {output!r}.", hint=f"It has {', '.join(outputs)}.")
        found = [scores for name in names if (scores := _read_scores(self, name, row)) is not None]
        if len(found) != 1:
            how_many, hint = "more than one of", "Choose one with top_k(output=...)."
            if not found:
                how_many = "none of"
                hint = "For a batch, choose a row with top_k(row=0). For a detector, decode the boxes first."
                hint = next(filter(None, (_describe_picture(name, outputs[name]) for name in names)), hint)
            message = f"top_k requires one output with one row of scores: {how_many} {', '.join(names)} is one."
            raise InvalidArgumentError(message, hint=hint)
        ((array, keys),) = found
        if keys and labels:
            raise InvalidArgumentError("The output is a map, whose keys are the labels.", hint="Omit labels.")
        return rank_classes(
            array, n, require_labels(labels) or keys or select_fitting_labels(self._facts.labels, array)
        )

    def __repr__(self) -> str:
        if self._error is not None:
            return f"<LearningModelEvaluationResult failed: {self._error}>"
        return f"<LearningModelEvaluationResult {dict(self._outputs)!r}>"


def read_numbers(result: LearningModelEvaluationResult, name: str) -> Array | None:
    """The numbers of an output, however it was bound; None for a picture, a map, and a sequence.

    An array, a buffer, or a tensor in the host's memory is viewed: the next run of its binding overwrites it. A tensor
    on a GPU is copied. A list or a buffer has the shape that the model declares; None if more than one size is free.
    """
    value = result.outputs[name]
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Tensor):
        return value.to_numpy()
    if is_cuda_array(value):
        return as_device_array(value).to_numpy()
    if can_export_dlpack(value):
        return as_host_array(value)
    feature = result._facts.outputs.get(name)
    if not isinstance(feature, TensorFeatureDescriptor) or not feature.has_rank or feature.shape.count(-1) > 1:
        return None
    if type(value) is list and value and isinstance(value[0], (int, float)):
        return np.array(value).reshape(feature.shape)
    if is_buffer(value):
        return np.frombuffer(value, TENSOR_CLASSES[feature.tensor_kind].dtype).reshape(feature.shape)
    return None


def _read_scores(
    result: LearningModelEvaluationResult, name: str, row: int | None
) -> tuple[Array, Sequence[str]] | None:
    """The scores in a row of an output, or in its only one, and the names of their classes if they are a map's keys."""
    array, keys, value = read_numbers(result, name), list[str](), result.outputs[name]
    maps = [value] if isinstance(value, Mapping) else value
    if isinstance(maps, list) and maps and isinstance(maps[0], Mapping):
        chosen = maps if row is None else maps[row : row + 1]
        scores = chosen[0] if len(chosen) == 1 else {}
        array, keys = np.array([*scores.values()]), [*map(str, scores)]
    elif array is not None and row is not None:
        array = np.atleast_2d(array)[row : row + 1]
    return None if array is None or not is_row(array) else (array, keys)


def _describe_picture(name: str, value: Any) -> str:
    """How to save a picture, or the first of several; "" for any other output."""
    first, index = (value[0], "[0]") if isinstance(value, list) and value else (value, "")
    frame = "" if hasattr(first, "save") else ".software_bitmap"
    is_picture = not frame or hasattr(first, "software_bitmap")
    return f'{name} is a picture. Save it with result[{name!r}]{index}{frame}.save("{name}.png").' if is_picture else ""


# The classes with the highest scores.


def is_row(array: Array) -> bool:
    """Whether an array is one row of scores: floats, all dimensions but one of size 1; the first one is the batch's."""
    is_one = array.ndim == 1 or (array.ndim > 1 and len(array) == 1)
    return is_one and array.dtype.kind == "f" and array.size > 1 and array.size == max(array.shape)


def can_rank(scores: Array) -> bool:
    """Whether the scores can be ranked: none is NaN or +inf. Models use -inf to exclude a class."""
    return not (np.isnan(scores).any() or np.isposinf(scores).any())


def select_fitting_labels(labels: Sequence[str], array: Array) -> Sequence[str]:
    """The labels, if there is one for each score of the row; else none."""
    return labels if len(labels) == array.size else ()


def find_best_classes(array: Array, count: int, labels: Sequence[str] = ()) -> list[Prediction]:
    """The best of an output that may be a row of scores, with labels if they fit; empty for any other output."""
    return rank_classes(array, count, select_fitting_labels(labels, array)) if is_row(array) and can_rank(array) else []


def rank_classes(array: Array, count: int, labels: Sequence[str] = ()) -> list[Prediction]:
    """The best of a row, highest first; equal scores by the lower index.

    Raises:
        InvalidArgumentError: there are labels, but not one for each score.
        EvaluationError: scores that are NaN or infinite.
    """
    scores = array.reshape(-1)
    if len(labels) not in (0, scores.size):
        raise InvalidArgumentError(
            f"Expected {scores.size} labels, one for each score of the model, got {len(labels)}.",
            hint="Pass one label for each class, in the order the model was trained with.",
        )
    if not can_rank(scores):
        raise EvaluationError(
            "The model returned scores that are NaN or infinite and cannot be ranked.",
            hint="Check the inputs. A float16 model may have overflowed.",
        )
    best = np.argsort(-scores, kind="stable")[:count]
    return [Prediction(int(i), float(scores[i]), str(labels[i]) if len(labels) else "") for i in best]


# How an engine's values become the objects of a result.


Memory = Array | DeviceArray | StaysOnDevice | None
"""Where an engine writes an output; None where it allocates the memory."""


class OutputSlot:
    """Receives one output of every run.

    Attributes:
        name: the output's.
        value: what the caller bound; None if nothing is bound.
        memory: where the engine writes the output.
        targets: the arrays, lists, dicts and tensors that a run writes to; none if nothing is bound.
    """

    memory: Memory = None
    targets: Sequence[object] = ()

    def __init__(self, descriptor: FeatureDescriptor, value: Any = None) -> None:
        self.name, self.value = descriptor.name, value
        self._descriptor = descriptor

    @property
    def is_stale(self) -> bool:
        """Whether the bound tensor has other memory than at the bind: another evaluation has replaced it."""
        return False

    def receive(self, value: Value | DeviceArray | None) -> Any:
        """Takes the engine's value, or None if the engine wrote to bound memory; returns the caller's object."""
        raise NotImplementedError

    def invalidate(self) -> None:
        """After a failed run, makes the bound object empty, or an error to read, until a run succeeds."""


class UnboundOutput(OutputSlot):
    """The slot of an unbound output: a new object after every run. For many threads."""

    def __init__(self, descriptor: FeatureDescriptor) -> None:
        super().__init__(descriptor)
        self._tensor_class: type[Tensor] | None = None
        if isinstance(descriptor, TensorFeatureDescriptor):
            self._tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)

    def receive(self, value: Value | DeviceArray | None) -> Any:
        """Wraps the engine's value, or turns it into pictures."""
        descriptor, tensor_class = self._descriptor, self._tensor_class
        if not isinstance(value, np.ndarray):
            return convert_to_python(value, descriptor)
        if tensor_class is not None and value.dtype == tensor_class.dtype:
            return wrap_array(tensor_class, value)
        if isinstance(descriptor, ImageFeatureDescriptor):
            return self._make_pictures(value, descriptor.contract)
        if is_untyped(descriptor) and value.dtype in CLASSES_BY_DTYPE:
            return wrap_array(CLASSES_BY_DTYPE[value.dtype], value)
        if isinstance(descriptor, TensorFeatureDescriptor) and tensor_class is None:
            raise NotSupportedError(  # numpy has no type for it: the engine returns float8, say, as bytes
                f"The output {descriptor.name} has an element type that neither Windows ML nor numpy supports, such as "
                "float8 or bfloat16.",
                hint="In the model, add a Cast to float32 after that output.",
            )
        raise make_output_error(descriptor, value, tensor_class.dtype if tensor_class else None)

    def _make_pictures(self, value: Array, contract: ImageContract) -> ImageFeatureValue | list[VideoFrame]:
        require_pictures(value, contract, self._descriptor)
        height, width = (value.shape[axis] for axis in contract.axes()[1:])
        frames = [VideoFrame(contract.bitmap_pixel_format, width, height) for _ in value]
        buffers = BufferCache()
        for tensor, frame in zip(value, frames, strict=True):
            detensorize(tensor, contract, frame.software_bitmap, buffers)
        return ImageFeatureValue(frames) if len(frames) == 1 else ListOutput(frames)


def convert_to_python(value: Value | DeviceArray | None, descriptor: FeatureDescriptor) -> Any:
    """Converts a map to a dict, and a sequence to a list of dicts or tensors."""
    if isinstance(value, dict) and (isinstance(descriptor, MapFeatureDescriptor) or is_untyped(descriptor)):
        return MapOutput(value)
    if isinstance(value, list) and (isinstance(descriptor, SequenceFeatureDescriptor) or is_untyped(descriptor)):
        return ListOutput(
            wrap_array(CLASSES_BY_DTYPE[element.dtype], element)
            if isinstance(element, np.ndarray) and element.dtype in CLASSES_BY_DTYPE
            else convert_to_python(element, getattr(descriptor, "element_descriptor", descriptor))
            for element in value
        )
    raise make_output_error(descriptor, value)


def require_pictures(value: Array, contract: ImageContract, descriptor: FeatureDescriptor) -> None:
    """Refuses an output that the model declares as a picture, but whose values are not."""
    if value.ndim != 4 or value.shape[contract.axes()[0]] != contract.channels or 0 in value.shape:
        raise make_output_error(descriptor, value)


def make_output_error(descriptor: FeatureDescriptor, value: object, dtype: DType | None = None) -> EvaluationError:
    """The error for an output that is not what the model declares: of another dtype, or else of another kind."""
    actual = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type_name(value)
    return EvaluationError(
        f"The engine produced an unexpected evaluation output for unbound output variable {descriptor.name}: "
        f"expected {dtype or descriptor.expects()}, got {actual}.",
        hint="Correct the type that the model declares or that your Python function returns.",
        hresult=E_UNEXPECTED,
    )
