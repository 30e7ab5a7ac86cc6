"""Jobs: a thread of a stream loads a batch of items, evaluates it, and splits the outputs."""

from __future__ import annotations

import copy
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakSet

import numpy as np

from ...errors import (
    E_FAIL,
    ClosedError,
    DeviceLostError,
    EvaluationError,
    InvalidArgumentError,
    WinMLError,
)
from ..base.agreement import HALF_TOLERANCE, compute_relative_error
from ..base.arrays import Array
from ..base.collections import NameMap
from ..base.messages import type_name
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.descriptors import FeatureDescriptor, ShapedDescriptor
from ..features.pictures import ImageFeatureValue
from ..features.prepare import as_picture, is_pil_image, open_deferred, prepare
from ..features.tensor import Tensor, wrap_array
from ..imaging.bitmap import VideoFrame
from .result import LearningModelEvaluationResult
from .sources import Item, read_value
from .state import BindingState, SessionState

Values = Mapping[str, Any]
"""Values by the names of features."""

_compared: WeakSet[SessionState] = WeakSet()
"""Sessions in which a batch gave the results of its items."""


class Jobs:
    """Evaluates items, at most `batch` at a time; refuses more than one for a model whose batch is not free.

    Args:
        session_state: of the session that evaluates.
        properties: those of the binds, by the names of inputs.
        batch: how many items to evaluate together.
        fast_decode: whether large JPEGs are decoded only as large as the model needs.
        copies: whether to copy values that the source of the items may overwrite.
    """

    def __init__(
        self,
        session_state: SessionState,
        properties: Mapping[str, BindProperties],
        batch: int,
        fast_decode: bool,
        copies: bool,
    ) -> None:
        self.batch = batch
        self._session_state = session_state
        self._properties = NameMap(properties)
        self._bindings: deque[BindingState] = deque()  # of threads that wait for their next job
        self._inputs = NameMap(self._session_state.inputs)
        self._fast_decode = fast_decode
        self._copies = copies
        if batch > 1:
            _require_batches([*session_state.inputs.values(), *session_state.outputs.values()])

    def detach(self, item: Item) -> Item:
        """The item with a table's columns by name, and with values that its source can no longer write. Memory for
        outputs stays as it is, even if an input reads it.
        """
        if isinstance(item.value, WinMLError):
            return item
        try:
            value = self._session_state.name_values(item.value)
            if self._copies and isinstance(value, Mapping):
                written = {id(part) for name, part in value.items() if name not in self._inputs}
                value = {name: part if id(part) in written else detach(part) for name, part in value.items()}
            elif self._copies:
                value = detach(value)
        except WinMLError as error:  # the error stays with its item
            value = error
        return item._replace(value=value)

    def run(self, items: list[Item]) -> list[LearningModelEvaluationResult]:
        """The items' results, in order; failed ones hold their error."""
        results: dict[int, LearningModelEvaluationResult] = {}
        loaded: dict[int, Values] = {}
        for item in items:
            try:
                loaded[item.number] = self._load(item)
            except WinMLError as error:
                results[item.number] = _make_failed_result(error)
        batch = list(loaded.values())
        batch_results = self._run_batch(batch) if len(batch) > 1 else map(self._run_one, batch)
        results.update(zip(loaded, batch_results, strict=True))
        for item in items:
            results[item.number]._source, results[item.number]._index = item.source, item.number
        return [results[item.number] for item in items]

    def _load(self, item: Item) -> Values:
        """The item's values by name, with files read; raises the item's error."""
        values = item.value
        if isinstance(values, WinMLError):
            raise values
        if not isinstance(values, Mapping):
            if len(self._inputs) != 1:
                raise InvalidArgumentError(
                    f"Expected a value for each of {len(self._inputs)} inputs, got one {type_name(values)}.",
                    hint=f"Pass {{name: value}} with the names {', '.join(self._inputs) or 'none'}.",
                )
            values = {next(iter(self._inputs)): values}
        if self._session_state.is_silent:  # Windows ML takes no files
            return dict(values)
        return {
            name: read_value(self._inputs[name], value, self._fast_decode) if name in self._inputs else value
            for name, value in values.items()
        }

    def _run_one(self, values: Values) -> LearningModelEvaluationResult:
        try:
            return self._evaluate(values)
        except WinMLError as error:
            return _make_failed_result(error)

    def _run_batch(self, items: Sequence[Values]) -> list[LearningModelEvaluationResult]:
        """One evaluation for all; if it fails, one for each, so that an error stays with its item.

        Raises:
            InvalidArgumentError: the session's first batch gives other results than its items one by one.
        """
        names = items[0].keys()
        # Values for outputs, and names that the model lacks, are not batched.
        if any(name not in self._inputs for name in names) or any(values.keys() != names for values in items):
            return [self._run_one(values) for values in items]
        try:
            sources = [{name: self._prepare(name, value) for name, value in values.items()} for values in items]
            entries = [{len(getattr(part, "sizes", part)) for part in item.values()} for item in sources]
            if any(len(sizes) != 1 for sizes in entries):  # the inputs of an item do not have one entry each
                return [self._run_one(values) for values in items]
            counts = [sizes.pop() for sizes in entries]
            result, parts = self._evaluate_batch(sources, counts)
            mixed_output = None
            if self._session_state not in _compared:
                # The other way round, too: a sum with what comes before shows nothing after an item of zeros.
                _, turned = self._evaluate_batch(sources[::-1], counts[::-1])
                turned_back = {name: values[::-1] for name, values in turned.items()}
                mixed_output = self._find_mixed_output(items, [parts, turned_back])
        # Arrays whose shapes do not match raise numpy's ValueError. One by one, only the faulty items fail.
        except (WinMLError, KeyError, ValueError):
            return [self._run_one(values) for values in items]
        if mixed_output is not None:
            raise InvalidArgumentError(
                f"Items cannot be batched: in a batch of {len(items)}, the output {mixed_output} differs from the "
                "results for single items.",
                hint="Omit batch. The model mixes the items of a batch, or its results are random.",
            )
        facts = self._session_state.facts
        item_results = []
        for index, (start, end) in enumerate(_find_spans(counts)):
            outputs = {name: values[index] for name, values in parts.items()}
            placements = {name: per_picture[start:end] for name, per_picture in result.placements.items()}
            item_results.append(LearningModelEvaluationResult("", outputs, placements=placements, facts=facts))
        return item_results

    def _evaluate_batch(
        self, sources: Sequence[Values], counts: Sequence[int]
    ) -> tuple[LearningModelEvaluationResult, dict[str, list[Any]]]:
        """The result of all items together, and each item's part of its outputs."""
        result = self._evaluate({name: _join([item[name] for item in sources]) for name in sources[0]})
        return result, {name: _split_value(name, value, counts) for name, value in result.outputs.items()}

    def _prepare(self, name: str, value: object) -> Any:
        """An item's value, checked as `bind` checks it: an array, or pictures. Memory of a device is refused."""
        feature, properties = self._session_state.find(name)[0], self._properties.get(name, NO_PROPERTIES)
        prepared = prepare(value, feature, properties)
        if prepared.is_deferred:
            prepared = prepare(open_deferred(prepared), feature, properties)
        return prepared.converted.to_numpy() if isinstance(prepared.converted, Tensor) else prepared.converted

    def _find_mixed_output(
        self, items: Sequence[Values], batches: Sequence[Mapping[str, Sequence[object]]]
    ) -> str | None:
        """The name of an output that differs if the items are evaluated one by one, or None.

        Batches are compared until one can show it: each output has a place where all numbers are finite, as a number
        that is mixed with NaN is NaN, as it may be alone; and at such places, items differ, as equal ones mix unseen.
        """
        alone = [self._evaluate(values).outputs for values in items]
        is_finite, is_varied = True, False
        for name, values in ((name, values) for parts in batches for name, values in parts.items()):
            rows = [_read_entries(outputs[name]) for outputs in alone]
            expected, actual = np.concatenate(rows), np.concatenate([_read_entries(value) for value in values])
            is_equal = np.array_equal(expected, actual, equal_nan=expected.dtype.kind == "f")
            # Half precision's tolerance, as a batch may be rounded differently in any precision, and pictures to other
            # levels. Classes, counts and texts are the same or not.
            is_exact = expected.dtype.kind in "Oiub" and as_picture(alone[0][name]) is None
            if not is_equal and (is_exact or compute_relative_error(expected, actual) > HALF_TOLERANCE):
                return name
            places = np.True_ if expected.dtype == object else np.isfinite(expected).all(0)
            is_finite &= bool(places.any())
            is_varied |= any(not np.array_equal(row[:, places], rows[0][:, places]) for row in rows)
        if is_finite and is_varied:
            _compared.add(self._session_state)
        return None

    def _evaluate(self, values: Values) -> LearningModelEvaluationResult:
        """Evaluates the values of one item or batch, with a binding that no other thread uses meanwhile.

        Raises:
            WinMLError: as `bind` and `evaluate` do.
        """
        try:
            binding = self._bindings.pop()
        except IndexError:
            binding = BindingState(self._session_state)
        binding.forget()  # otherwise the item would keep what an earlier one bound
        for name, value in values.items():
            binding.bind(name, value, self._properties.get(name, NO_PROPERTIES))
        if len(binding.values) < len(values):
            self._session_state.require_distinct(values)
        result = binding.evaluate()
        self._bindings.append(binding)  # after a failure, some inputs may be bound: such a binding is not used again
        return result

    def clear(self) -> None:
        """Releases the bindings, with the memory of pictures."""
        self._bindings.clear()


def _require_batches(features: Sequence[FeatureDescriptor]) -> None:
    """Refuses a model whose inputs and outputs do not all have an entry for each item.

    Raises:
        InvalidArgumentError: a first dimension is fixed, or has another name than that of the first input. An output
            may then have another number of entries than there are items.
    """
    dimensions = []
    for feature in features:
        if not isinstance(feature, ShapedDescriptor):
            problem = f"{feature.name} ({feature.expects()}) has no batch dimension"
            raise InvalidArgumentError(f"Items cannot be batched: {problem}.", hint="Omit batch.")
        if feature.shape[:1] != (-1,):
            raise InvalidArgumentError(
                f"Items cannot be batched: the first dimension of {feature.name} is fixed ({feature.expects()}).",
                hint="Omit batch. To free the dimension, set options.batch_size_override = 0, or change the model.",
            )
        dimensions.append((feature.dimension_names or ("",))[0])
    first = dimensions[0]
    for feature, dimension in zip(features, dimensions, strict=True):
        if first and dimension and dimension != first:
            raise InvalidArgumentError(
                f"Items cannot be batched: the first dimension of {features[0].name} is {first!r}, but that of "
                f"{feature.name} is {dimension!r}.",
                hint="Omit batch. If both dimensions are the batch, give them the same name in the model.",
            )


def _make_failed_result(error: WinMLError) -> LearningModelEvaluationResult:
    if isinstance(error, (ClosedError, DeviceLostError)):  # all items after this one would fail as well
        raise error
    # Without the traceback, whose frames hold the engine.
    return LearningModelEvaluationResult("", {}, error.with_traceback(None))


# Batches: the values of several items joined into one, and each item's part of the outputs.


def _join(sources: Sequence[Any]) -> Any:
    """The values of several items as one: pictures of one contract, or arrays end to end; ValueError for a mixture."""
    if all(isinstance(source, ImageFeatureValue) for source in sources):
        (contract,) = {source.contract for source in sources}
        return ImageFeatureValue([frame for source in sources for frame in source.video_frames], contract=contract)
    return np.concatenate(sources)


def _read_entries(value: Any) -> Array:
    """The numbers of an output, pictures or tensors, with the entries of the batch along the first axis."""
    picture = as_picture(value)
    if picture is None:
        return np.asarray(value.to_numpy())
    return np.stack([frame.software_bitmap.to_numpy() for frame in picture.video_frames])


def _split_value(name: str, value: object, counts: Sequence[int]) -> list[Any]:
    """Each item's part of an output; EvaluationError where the output does not have one entry for each item."""
    total = sum(counts)
    if isinstance(value, list) and all(isinstance(frame, VideoFrame) for frame in value) and len(value) == total:
        return [ImageFeatureValue(value[start:end]) for start, end in _find_spans(counts)]
    if isinstance(value, Tensor) and value.shape and value.shape[0] == total:
        array = value.to_numpy()
        return [wrap_array(type(value), array[start:end]) for start, end in _find_spans(counts)]
    raise EvaluationError(
        f"The output {name} cannot be split by item.", hint="Omit the batch argument.", hresult=E_FAIL
    )


def _find_spans(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where each item's entries begin and end in the batch."""
    return pairwise(accumulate(counts, initial=0))


# Copies of an item's values: a source may read its next item into the same memory while a thread evaluates this one, as
# cameras, files and sockets do. So what the program can still write is copied before the next item is requested.


def detach(value: Any) -> Any:
    """The value if nobody else can write it, else a deep copy.

    Paths, bytes and frames of a `VideoReader` are not copied.
    """
    if isinstance(value, (str, bytes, os.PathLike, int, float, np.generic)):
        return value
    if isinstance(value, VideoFrame) and value.is_stable:
        return value
    if isinstance(value, Mapping):
        return {key: detach(element) for key, element in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(detach, value))
    if is_pil_image(value):
        return ImageFeatureValue.from_pil(value)  # decoded now: it may be closed, painted over, or at another frame
    try:
        if type(value) is np.ndarray:
            return value.copy()
        if isinstance(value, memoryview):
            return np.array(value).data
        return copy.deepcopy(value)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"{type_name(value)} cannot be copied before the next item is taken: {error}.",
            hint="If every item has separate memory, call evaluate_many(..., copy=False).",
        ) from error
