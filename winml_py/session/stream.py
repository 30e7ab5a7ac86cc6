"""Many evaluations of one session: a stream of inputs in, a stream of results out, in the same order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import forks
from ..base.arguments import whole_number
from ..base.closeable import Closeable
from ..base.cpu_cores import usable_cores
from ..base.thread_pools import shared_pool
from ..errors import (
    E_FAIL,
    ClosedError,
    EvaluationError,
    IllegalCallError,
    InvalidArgumentError,
    InvalidBindingError,
    WinMLError,
)
from ..features.containers import as_tensor
from ..features.conversion import as_picture
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..features.pictures import ImageFeatureValue
from ..features.tensor import Tensor, over
from ..imaging.frame import VideoFrame
from .binding import LearningModelBinding, evaluation_of
from .result import LearningModelEvaluationResult, ModelFacts

if TYPE_CHECKING:
    from concurrent.futures import Future

Features = Mapping[str, Any]
READERS = 16
"""Threads that wait for the next results of streams that are read by `async for`."""

AHEAD = 2
"""Jobs that wait for each thread. No thread runs out of work, and memory stays bounded."""


class EvaluationStream(Closeable):
    """Results in the order of the inputs: iterate over it, or `async for`. Closing it stops what has not begun.

    Made by `LearningModelSession.evaluate_many`.
    """

    def __init__(self, jobs: Jobs, inputs: Iterable[Any], concurrency: int | None) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._jobs = jobs
        self._source = iter(inputs)
        self._failure: BaseException | None = None  # what the source of the inputs raised, for when its turn comes
        self._is_exhausted = self._is_closed = self._is_inherited = False
        forks.watch(self)
        workers = usable_cores() if concurrency is None else whole_number(concurrency, "concurrency", 1)
        self._limit = workers * AHEAD
        self._pool = ThreadPoolExecutor(workers, "winml-py many")
        self._pending: deque[Future[list[LearningModelEvaluationResult]]] = deque()
        self._ready: deque[LearningModelEvaluationResult] = deque()
        self._awaited: Future[LearningModelEvaluationResult | None] | None = None

    def __iter__(self) -> Iterator[LearningModelEvaluationResult]:
        return self

    def in_child(self) -> None:
        """After a fork, the threads that evaluate are the parent's."""
        self._is_inherited = True

    def _require_here(self) -> None:
        if self._is_inherited:
            raise IllegalCallError(
                "The stream was made before a fork, and its threads are in the parent process alone.",
                hint="Make a session and a stream in this process.",
            )

    def __next__(self) -> LearningModelEvaluationResult:
        self._require_here()
        if not self._ready:
            self._fill()
            if self._pending:
                self._ready.extend(self._pending.popleft().result())
                self._fill()
        if self._ready:
            return self._ready.popleft()
        self.close()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        raise StopIteration

    def __aiter__(self) -> EvaluationStream:
        return self

    async def __anext__(self) -> LearningModelEvaluationResult:
        import asyncio

        self._require_here()
        while True:
            if self._awaited is None and self._is_closed:
                raise StopAsyncIteration
            if self._awaited is None:
                self._awaited = shared_pool("winml-py streams", READERS).submit(next, self, None)
            awaited = self._awaited
            await asyncio.wait([asyncio.wrap_future(awaited)])  # if this is cancelled, the next call waits for the same
            if self._awaited is awaited:  # or another task has taken it
                self._awaited = None
                break
        result = awaited.result()
        if result is None:
            raise StopAsyncIteration
        return result

    def close(self) -> None:
        """Stops the stream: jobs that have not begun are dropped, running ones are waited for. Twice is harmless."""
        if self._is_inherited:
            return
        self._is_exhausted = self._is_closed = True
        self._ready.clear()
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._jobs.clear()

    def _fill(self) -> None:
        """Hands jobs to the threads. Inputs are taken as late as possible, so that memory stays bounded."""
        while len(self._pending) < self._limit and not self._is_exhausted:
            items = self._take()
            if items:
                self._pending.append(self._pool.submit(self._jobs.run, items))

    def _take(self) -> list[Any]:
        items: list[Any] = []
        try:
            while len(items) < self._jobs.batch:
                items.append(next(self._source))
        except StopIteration:
            self._is_exhausted = True
        except Exception as failure:  # whatever the caller's own iterator raises is given back to the caller
            self._failure, self._is_exhausted = failure, True
        return items


class Jobs:
    """What one thread does for a batch of items: load, bind, evaluate, split."""

    def __init__(
        self,
        inputs: Mapping[str, FeatureDescriptor],
        outputs: Mapping[str, FeatureDescriptor],
        new_binding: Callable[[], LearningModelBinding],
        evaluate: Callable[[LearningModelBinding], LearningModelEvaluationResult],
        batch: int | None,
    ) -> None:
        self.batch = 1 if batch is None else whole_number(batch, "batch", 1)
        self._inputs = inputs
        self._new_binding, self._run = new_binding, evaluate
        self._bindings: SimpleQueue[LearningModelBinding] = SimpleQueue()
        if self.batch > 1:
            for feature in (*inputs.values(), *outputs.values()):
                _require_free_batch(feature)

    def clear(self) -> None:
        """Lets go of the bindings."""
        while True:
            try:
                self._bindings.get_nowait()
            except Empty:
                return

    def run(self, items: list[Any]) -> list[LearningModelEvaluationResult]:
        """The items' results, in their order; those that failed say so."""
        loaded = [self._load(item) for item in items]
        good = [features for features in loaded if not isinstance(features, WinMLError)]
        results = iter(self._together(good) if len(good) > 1 else map(self._alone, good))
        return [_failed(entry) if isinstance(entry, WinMLError) else next(results) for entry in loaded]

    def _load(self, item: Any) -> Features | WinMLError:
        """The item's values by name, pictures decoded; or why there are none."""
        try:
            features = item if isinstance(item, Mapping) else {self._only_input(item): item}
            return {name: self._value(name, value) for name, value in features.items()}
        except WinMLError as error:
            return error

    def _only_input(self, item: Any) -> str:
        if len(self._inputs) != 1:
            raise InvalidArgumentError(
                f"The model has {len(self._inputs)} inputs, and a {type(item).__name__} came for all of them.",
                hint=f"Write {{name: value}}; the names: {', '.join(self._inputs)}.",
            )
        return next(iter(self._inputs))

    def _value(self, name: str, value: Any) -> Any:
        if not isinstance(value, (str, os.PathLike)) or not isinstance(self._inputs.get(name), ImageFeatureDescriptor):
            return value
        return ImageFeatureValue.load(value)

    def _alone(self, features: Features) -> LearningModelEvaluationResult:
        try:
            return self._evaluate(features)
        except WinMLError as error:
            return _failed(error)

    def _together(self, items: Sequence[Features]) -> list[LearningModelEvaluationResult]:
        """One evaluation for all; if that fails, one for each, so that an error stays with its item."""
        if any(features.keys() != items[0].keys() or not features.keys() <= self._inputs.keys() for features in items):
            return [self._alone(features) for features in items]  # values of outputs, or names that the model lacks
        try:
            joined = {name: _joined([features[name] for features in items]) for name in items[0]}
            counts = [_count(next(iter(features.values()))) for features in items]
            whole = self._evaluate(joined)
            parts = {name: _split(name, value, counts) for name, value in whole.outputs.items()}
        except (WinMLError, KeyError, ValueError):
            return [self._alone(features) for features in items]
        return [
            LearningModelEvaluationResult(
                "",
                {name: values[index] for name, values in parts.items()},
                placements={name: found[start:end] for name, found in whole.placements.items()},
                facts=ModelFacts(whole.labels, whole.metadata),
            )
            for index, (start, end) in enumerate(pairwise(np.cumsum([0, *counts])))
        ]

    def _evaluate(self, features: Features) -> LearningModelEvaluationResult:
        try:
            binding = self._bindings.get_nowait()
        except Empty:
            binding = self._new_binding()
        evaluation_of(binding).forget()  # or an item would be given what an earlier one bound
        for name, value in features.items():
            binding.bind(name, value)
        result = self._run(binding)
        self._bindings.put(binding)  # not where it failed: it may be half bound
        return result


def _failed(error: WinMLError) -> LearningModelEvaluationResult:
    if isinstance(error, ClosedError):
        raise error
    return LearningModelEvaluationResult("", {}, error)


def _joined(values: Sequence[Any]) -> Any:
    """The values of several items as one: pictures in a list, tensors end to end."""
    pictures = [as_picture(value) for value in values]
    if all(picture is not None for picture in pictures):
        return [frame for picture in pictures if picture is not None for frame in picture.video_frames]
    return np.concatenate([_array(value) for value in values])


def _array(value: Any) -> np.ndarray[Any, Any]:
    tensor = as_tensor(value)
    if tensor is None:
        raise InvalidBindingError(f"{type(value).__name__} cannot be part of a batch.", hint="Bind arrays or pictures.")
    return tensor.to_numpy()


def _count(value: Any) -> int:
    picture = as_picture(value)
    return len(picture.sizes) if picture is not None else len(_array(value))


def _split(name: str, value: Any, counts: Sequence[int]) -> list[Any]:
    """Each item's part of an output."""
    starts = np.cumsum([0, *counts])
    if isinstance(value, list) and all(isinstance(frame, VideoFrame) for frame in value) and len(value) == starts[-1]:
        return [ImageFeatureValue(value[start:end]) for start, end in pairwise(starts)]
    if isinstance(value, Tensor) and value.shape and value.shape[0] == starts[-1]:
        array, kind = value.to_numpy(), type(value)
        return [over(kind, array[start:end]) for start, end in pairwise(starts)]
    raise EvaluationError(
        f"The output {name} cannot be told apart by items.", hint="Evaluate without batch.", hresult=E_FAIL
    )


def _require_free_batch(feature: FeatureDescriptor) -> None:
    shape = feature.shape if isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)) else ()
    if not shape or shape[0] != -1:
        raise InvalidArgumentError(
            f"Items cannot be batched: the first size of {feature.name} ({feature.expects()}) is not free.",
            hint="Leave batch out, or export the model with a free batch dimension.",
        )
