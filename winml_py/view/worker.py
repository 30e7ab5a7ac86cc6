"""One model's session: in a process of its own, made anew where that has ended; an evaluation that can be stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core.base.arrays import Array
from ..core.base.async_operation import AsyncOperation
from ..core.base.child_process import is_available
from ..core.base.winrt_object import inside
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.descriptors import ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.contract import ImageContract
from ..core.imaging.picture_placement import PicturePlacement
from ..core.model.model import LearningModel
from ..core.runtime.isolated.wire import require_system
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import TensorKind
from ..errors import CanceledError, EvaluationTimeoutError, NotSupportedError, WinMLError
from ..inputs.model import Case
from ..perf.measure import Stopwatch

T = TypeVar("T")

GRACE_SECONDS = 5.0
"""So long what was stopped may take to end. In a process of its own it is killed half a second after."""


class Job:
    """One evaluation that somebody waits for, from its place in the queue to its answer.

    Args:
        seconds: so long it may take, from its turn on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._until = seconds, 0.0
        self._lock, self._is_cancelled = threading.Lock(), False
        self._operation: AsyncOperation[Any] | None = None

    def begin(self) -> None:
        """Its turn has come.

        Raises:
            CanceledError: nobody wants it any more.
        """
        self._until = time.monotonic() + self._seconds
        if self._is_cancelled:
            raise CanceledError("The evaluation was stopped.")

    def cancel(self) -> None:
        """Stops it; also one that has not begun."""
        with self._lock:
            self._is_cancelled = True
            if self._operation is not None:
                self._operation.cancel()

    def wait_for(self, operation: AsyncOperation[T]) -> T:
        """What an operation gives.

        Raises:
            CanceledError: the job was stopped.
            EvaluationTimeoutError: its time was up.
            WinMLError: what the operation raises.
        """
        with self._lock:
            self._operation = operation
            if self._is_cancelled:
                operation.cancel()
        try:
            return operation.get(max(0.001, self._until - time.monotonic()))
        except TimeoutError as error:
            if isinstance(error, WinMLError):
                raise
        except WinMLError as error:
            if self._is_cancelled:
                raise CanceledError("The evaluation was stopped.") from error
            raise
        finally:
            with self._lock:
                self._operation = None
        operation.cancel()
        with suppress(WinMLError, TimeoutError):
            operation.get(GRACE_SECONDS)
        raise EvaluationTimeoutError(
            f"The model was not done within {self._seconds:g} s, and was stopped.",
            hint="Allow more: winml-py view --time-limit SECONDS.",
        )


class Evaluated(NamedTuple):
    """What came of an evaluation.

    Attributes:
        result: the outputs.
        tensors: what was bound to each input that is a tensor or a picture: copies.
        placements: where each picture lies in its tensor.
        seconds: of each phase: decode (of pictures that were not decoded before), tensorize, bind, evaluate, back.
    """

    result: LearningModelEvaluationResult
    tensors: dict[str, Array]
    placements: Mapping[str, PicturePlacement]
    seconds: dict[str, float]


class Worker:
    """The session of a model, made when it is needed.

    Args:
        model: what is evaluated.
        case: where it runs.
        session: a program's own, which is used as it is; by default one in a process of its own.

    Attributes:
        is_isolated: whether a model that ends its process ends another than this one.
    """

    def __init__(self, model: LearningModel, case: Case, session: LearningModelSession | None = None) -> None:
        self._model, self._case = model, case
        self._given, self._session = session, session
        self.is_isolated = session is None and _can_isolate(model)

    def evaluate(
        self, job: Job, values: Mapping[str, Any], contract: ImageContract | None, watch: Stopwatch
    ) -> Evaluated:
        """Binds values, and evaluates.

        Args:
            job: by which it can be stopped.
            values: of all inputs; pictures are bound by the contract.
            contract: how; None where no input is a picture.
            watch: has run since the values were read.

        Raises:
            EngineLostError: the process of the model ended.
            WinMLError: the session cannot be made, a value not bound, or the model not evaluated.
        """
        job.begin()
        try:
            session = self._open(job)
            binding = LearningModelBinding(session)
            watch.watch(binding)
            with watch.phase("bind"):
                for name, value in values.items():
                    binding.bind(name, value, self._properties(name, value, contract))
            # Before it is evaluated: what was bound, and not what an operator in place may leave of it.
            tensors = {name: _bound(binding, name, value) for name, value in values.items()}
            with watch.phase("back"):  # the watch times the run inside: the outputs are what is left
                result = job.wait_for(session.evaluate_async(binding))
        except WinMLError:
            if self._session is not None and self._session is not self._given and self._session.is_lost:
                self.close()
            raise
        placements = {name: places[0] for name, places in result.placements.items()}
        seconds = {name: sample.wall for name, sample in watch.lap().items()}
        found = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        return Evaluated(result, found, placements, seconds)

    def _open(self, job: Job) -> LearningModelSession:
        if self._session is None:
            device = self._case.find_device()
            options = LearningModelSessionOptions()
            options.batch_size_override = 0
            if self.is_isolated:
                options.isolation = "process"
            self._session = job.wait_for(LearningModelSession.create_async(self._model, device, options))
        return self._session

    @property
    def engine(self) -> str:
        """What runs it; "" where nothing does."""
        return "" if self._session is None else self._session.engine

    def _properties(self, name: str, value: object, contract: ImageContract | None) -> dict[str, object]:
        if contract is None or not isinstance(value, ImageFeatureValue):
            return {}
        return {"ImageContract": stated(contract, self._model, name)}

    def close(self) -> None:
        """Ends the session and its process; a program's own stays. Twice is harmless."""
        session, self._session = self._session, self._given
        if session is not None and session is not self._given:
            session.close()


def stated(contract: ImageContract, model: LearningModel, name: str) -> ImageContract:
    """The contract for an input: one of bytes must say so itself."""
    feature = next(feature for feature in model.input_features if feature.name == name)
    is_bytes = isinstance(feature, ShapedDescriptor) and feature.tensor_kind is TensorKind.UINT8
    return replace(contract, tensor_kind=TensorKind.UINT8) if is_bytes and contract.tensor_kind is None else contract


def _bound(binding: LearningModelBinding, name: str, value: object) -> Array | None:
    """A copy of the numbers that an input has; None of words, lists and maps."""
    if isinstance(value, ImageFeatureValue):
        tensor = inside(binding).pictures.tensors[name]
        return np.array(tensor if isinstance(tensor, np.ndarray) else tensor.to_numpy())
    return np.array(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None


def _can_isolate(model: LearningModel) -> bool:
    """Whether the system has such processes, and all that the model needs can be there: no functions of this one."""
    try:
        require_system()
    except NotSupportedError:
        return False
    return is_available() and not inside(model).operators.functions
