"""A model's session, in a separate process that is restarted after it ends; evaluations that can be stopped."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._inputs.examples import MAX_NUMBERS
from .._inputs.model import Case
from ..core.base.arrays import Array
from ..core.base.async_operation import AsyncOperation
from ..core.base.child_process import is_available
from ..core.base.machine import total_memory
from ..core.base.winrt_object import private_state
from ..core.evaluation.binding import LearningModelBinding
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
"""The seconds that a stopped evaluation gets to end. A separate process is killed half a second later."""

POLL_SECONDS = 0.05
"""The seconds between two checks whether an evaluation was stopped."""

AGAIN_SECONDS = 0.5
"""A faster evaluation is repeated, and the second one is shown: the first also loads libraries and allocates."""

MEMORY_SHARE = 0.75
"""The share of this machine's memory for a model on the processor in a separate process."""


class EvaluationJob:
    """An evaluation that somebody waits for. Its time limit, in seconds, counts from its turn on."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._until, self._is_cancelled = seconds, 0.0, False

    def begin(self) -> None:
        """Starts the time limit, when the job's turn has come."""
        self._until = time.monotonic() + self._seconds
        self.require_wanted()

    def require_wanted(self) -> None:
        """Raises CanceledError if the job was stopped."""
        if self._is_cancelled:
            raise CanceledError("The evaluation was stopped.")

    def cancel(self) -> None:
        """Stops the job, even if it has not begun."""
        self._is_cancelled = True

    def wait_for(self, operation: AsyncOperation[T]) -> T:
        """The result of an operation.

        Raises:
            CanceledError: the job was stopped.
            EvaluationTimeoutError: the time limit was reached.
        """
        while not self._is_cancelled and time.monotonic() < self._until:
            if operation.wait(POLL_SECONDS) is not AsyncStatus.STARTED:
                return operation.get()
        operation.cancel()
        with suppress(WinMLError):
            operation.wait(GRACE_SECONDS)
        self.require_wanted()
        raise EvaluationTimeoutError(
            f"The model did not finish within {self._seconds:g} s, and was stopped.",
            hint="Allow more time: winml-py view --time-limit SECONDS.",
        )


class Evaluated(NamedTuple):
    """The result of an evaluation.

    Attributes:
        result: the outputs.
        tensors: copies of the bound values of each input that is a tensor or a picture.
        placements: each picture's place in its tensor.
        seconds: of each phase: bind, evaluate.
        is_first: whether these are the seconds of the first evaluation.
    """

    result: LearningModelEvaluationResult
    tensors: dict[str, Array]
    placements: Mapping[str, PicturePlacement]
    seconds: dict[str, float]
    is_first: bool


class Worker:
    """A model's session, made when it is needed: in a separate process, unless a program passed one.

    `is_isolated` is whether a model that ends its process leaves this one alive.
    """

    def __init__(self, model: LearningModel, case: Case, session: LearningModelSession | None = None) -> None:
        self._model, self.case = model, case
        self._given, self._session = session, session
        # Another process has none of this one's functions, and a frozen program cannot start one.
        self.is_isolated = session is None and is_available() and not private_state(model).operators.functions

    def evaluate(
        self,
        job: EvaluationJob,
        values: Mapping[str, Any],
        contracts: Mapping[str, ImageContract],
        needs_times: bool = True,
    ) -> Evaluated:
        """Binds values, and evaluates; a quick model twice, for the times, unless `needs_times` is False.

        Raises:
            EngineLostError: the model's process ended.
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
                # Before the evaluation: the values as bound, which an in-place operator may change.
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
        """Refuses a tensor for which the page would need gigabytes, before it is made."""
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

    def _open(self, job: EvaluationJob) -> LearningModelSession:
        if self._session is None:
            device = self.case.find_device()
            options = LearningModelSessionOptions()
            options.batch_size_override = 0
            if self.is_isolated:
                memory = int(total_memory() * MEMORY_SHARE) if self.case.device == "cpu" else 0
                options.isolation = Isolation(max_memory=memory)
            self._session = job.wait_for(LearningModelSession.create_async(self._model, device, options))
        return self._session

    @property
    def engine(self) -> str:
        """The name of the engine; "" if there is none."""
        return "" if self._session is None else self._session.engine

    def close(self) -> None:
        """Ends the session and its process, but not a program's own session. Calling it twice is harmless."""
        session, self._session = self._session, self._given
        if session is not None and session is not self._given:
            session.close()


def _bound(binding: LearningModelBinding, name: str, value: object) -> Array | None:
    """A copy of an input's numbers; None for strings, lists and maps."""
    if isinstance(value, ImageFeatureValue):
        tensor: Any = private_state(binding).bound.inputs[name]
        return np.array(tensor if isinstance(tensor, np.ndarray) else tensor.to_numpy())
    return np.array(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None
