"""One model's session: in a process of its own, made anew where that has ended; an evaluation that can be stopped."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
import psutil

from .._inputs.examples import MAX_NUMBERS
from .._inputs.model import Case
from ..core.base.arrays import Array
from ..core.base.async_operation import AsyncOperation
from ..core.base.child_process import is_available
from ..core.base.winrt_object import private_state
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.evaluation.result import LearningModelEvaluationResult
from ..core.features.descriptors import ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.contract import ImageContract
from ..core.imaging.picture_placement import PicturePlacement
from ..core.model.model import LearningModel
from ..core.runtime.engine import Isolation
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import AsyncStatus
from ..errors import CanceledError, EvaluationTimeoutError, InvalidArgumentError, WinMLError
from ..perf.measure import Stopwatch

T = TypeVar("T")

GRACE_SECONDS = 5.0
"""So long what was stopped may take to end. In a process of its own it is killed half a second after."""

POLL_SECONDS = 0.05
"""How often somebody who waits looks whether the evaluation was stopped."""

AGAIN_SECONDS = 0.5
"""What is done in less is done a second time, which is shown: the first time also loads libraries and makes room."""

MEMORY_SHARE = 0.75
"""Of this machine's memory, for a model on its processor in a process of its own."""


class Job:
    """One evaluation that somebody waits for. Its time, in seconds, counts from its turn on."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._until, self._is_cancelled = seconds, 0.0, False

    def begin(self) -> None:
        """Its turn has come: from now on its time counts."""
        self._until = time.monotonic() + self._seconds
        self.require_wanted()

    def require_wanted(self) -> None:
        """Refuses to go on for nobody: CanceledError where it was stopped."""
        if self._is_cancelled:
            raise CanceledError("The evaluation was stopped.")

    def cancel(self) -> None:
        """Stops it; also one that has not begun."""
        self._is_cancelled = True

    def wait_for(self, operation: AsyncOperation[T]) -> T:
        """What an operation gives.

        Raises:
            CanceledError: the job was stopped.
            EvaluationTimeoutError: its time was up.
        """
        while not self._is_cancelled and time.monotonic() < self._until:
            if operation.wait(POLL_SECONDS) is not AsyncStatus.STARTED:
                return operation.get()
        operation.cancel()
        with suppress(WinMLError):
            operation.wait(GRACE_SECONDS)
        self.require_wanted()
        raise EvaluationTimeoutError(
            f"The model was not done within {self._seconds:g} s, and was stopped.",
            hint="Allow more: winml-py view --time-limit SECONDS.",
        )


class Evaluated(NamedTuple):
    """What came of an evaluation.

    Attributes:
        result: the outputs.
        tensors: copies of what was bound to each input that is a tensor or a picture.
        placements: where each picture lies in its tensor.
        seconds: of each phase: bind, evaluate.
        is_first: whether these are the seconds of the first evaluation.
    """

    result: LearningModelEvaluationResult
    tensors: dict[str, Array]
    placements: Mapping[str, PicturePlacement]
    seconds: dict[str, float]
    is_first: bool


class Worker:
    """The session of a model, made when it is needed: in a process of its own, unless a program gave one.

    `is_isolated` says whether a model that ends its process ends another than this one.
    """

    def __init__(self, model: LearningModel, case: Case, session: LearningModelSession | None = None) -> None:
        self._model, self.case = model, case
        self._given, self._session = session, session
        self.is_isolated = session is None and _can_isolate(model)

    def evaluate(
        self, job: Job, values: Mapping[str, Any], contracts: Mapping[str, ImageContract], needs_times: bool = True
    ) -> Evaluated:
        """Binds values, and evaluates; a quick model twice, for the times, unless `needs_times` is False.

        Raises:
            EngineLostError: the process of the model ended.
            WinMLError: the session cannot be made, a value not bound, or the model not evaluated.
        """
        for name, contract in contracts.items():
            self._require_room(name, contract)
        try:
            session = self._open(job)
            binding, watch = LearningModelBinding(session), Stopwatch()
            is_first = True
            while True:
                with watch.phase("bind"):
                    for name, value in values.items():
                        binding.bind(name, value, {"ImageContract": contracts[name]} if name in contracts else {})
                # Before it is evaluated: what was bound, and not what an operator in place may leave of it.
                tensors = {name: _bound(binding, name, value) for name, value in values.items()}
                with watch.phase("evaluate"):
                    result = job.wait_for(session.evaluate_async(binding))
                seconds = {name: sample.wall for name, sample in watch.lap().items()}
                if not is_first or not needs_times or sum(seconds.values()) > AGAIN_SECONDS:
                    break
                is_first = False
        except WinMLError:
            if self._session is not None and self._session is not self._given and self._session.is_lost:
                self.close()
            raise
        placements = {name: places[0] for name, places in result.placements.items()}
        bound = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        return Evaluated(result, bound, placements, seconds, is_first)

    def _require_room(self, name: str, contract: ImageContract) -> None:
        """Refuses a tensor that the page would need gigabytes for, before there is one."""
        feature = next(feature for feature in self._model.input_features if feature.name == name)
        assert isinstance(feature, ShapedDescriptor)
        stated = [feature.shape[axis] for axis in contract.axes()[1:]]
        height, width = (max(pair) for pair in zip(stated, contract.size or (1, 1), strict=True))
        if height * width * contract.channels > MAX_NUMBERS:
            raise InvalidArgumentError(
                f"The tensor of {name} would have {height * width * contract.channels:,} numbers; the page binds "
                f"{MAX_NUMBERS:,} at most.",
                hint="Choose a smaller size, or bind it from Python.",
            )

    def _open(self, job: Job) -> LearningModelSession:
        if self._session is None:
            device = self.case.find_device()
            options = LearningModelSessionOptions()
            options.batch_size_override = 0
            if self.is_isolated:
                memory = int(psutil.virtual_memory().total * MEMORY_SHARE) if self.case.device == "cpu" else 0
                options.isolation = Isolation(max_memory=memory)
            self._session = job.wait_for(LearningModelSession.create_async(self._model, device, options))
        return self._session

    @property
    def engine(self) -> str:
        """What runs it; "" where nothing does."""
        return "" if self._session is None else self._session.engine

    def close(self) -> None:
        """Ends the session and its process; a program's own stays. Twice is harmless."""
        session, self._session = self._session, self._given
        if session is not None and session is not self._given:
            session.close()


def _bound(binding: LearningModelBinding, name: str, value: object) -> Array | None:
    """A copy of the numbers that an input has; None of words, lists and maps."""
    if isinstance(value, ImageFeatureValue):
        tensor = private_state(binding).picture_tensors[name]
        return np.array(tensor if isinstance(tensor, np.ndarray) else tensor.to_numpy())
    return np.array(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None


def _can_isolate(model: LearningModel) -> bool:
    """Whether there is a Python to start, and all that the model needs can be there: no functions of this one."""
    return is_available() and not private_state(model).operators.functions
