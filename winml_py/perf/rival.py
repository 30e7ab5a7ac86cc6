"""A model with session options, ready to be timed against another."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from timeit import timeit
from typing import Any, NamedTuple

from .._inputs import trial
from .._inputs.examples import StatedSizes
from .._inputs.files import generated, jobs, read
from .._inputs.model import Case, load_model
from ..core.base import timing
from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, as_numpy, compare_outputs
from ..core.base.machine import usable_cores
from ..core.base.messages import Facts
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.imaging.contract import ImageContract
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import Precision
from ..errors import EvaluationError

LATENCY, THROUGHPUT = "latency", "throughput"


class TuningCase(NamedTuple):
    """A model with its inputs and device, to be timed, which can be sent to another process.

    Attributes:
        path: of the model.
        inputs: files, as for `Case`, of which the first is used; none for example inputs.
        contract: as for `Case`.
        sizes: as for `Case`.
        device: as for `Case`.
        goal: whether to time a single evaluation, or evaluations in a stream.
    """

    path: str
    inputs: tuple[str, ...]
    contract: ImageContract | None
    sizes: StatedSizes
    device: str
    goal: str


class LoadedCase:
    """A tuning case with its model, device and inputs loaded.

    Args:
        case: the tuning case.
        features: values of the inputs, by name; None for the case's own.
    """

    def __init__(self, case: TuningCase, features: Facts | None = None) -> None:
        self.case = case
        self.model = load_model(case.path, case.contract)
        self.device = Case(case.path, device=case.device).find_device()
        is_given = bool(case.inputs) and features is None
        self.given = read(self.model, next(jobs(self.model, case.inputs))[1]) if is_given else {}
        self.features = features or self.given or generated(self.model, case.sizes)

    def open(self, values: Facts) -> LearningModelSession:
        """A session with these options."""
        return LearningModelSession(self.model, self.device, LearningModelSessionOptions.from_dict(values))


def evaluate_apart(case: TuningCase, values: Facts) -> None:
    """Makes a session and evaluates it once, in a separate process, which the engine may end.

    Raises:
        ProcessEndedError: the engine ended it.
        WinMLError: the session cannot be made, or evaluated.
    """
    trial.call(_evaluate_once, case, values)


def _evaluate_once(case: TuningCase, values: Facts) -> None:
    loaded = LoadedCase(case)
    with loaded.open(values) as session:
        session.evaluate_features(loaded.features)


class Rival:
    """A session, ready to be timed.

    Args:
        loaded: the model and its inputs.
        values: the session's options, as in a file.
        batch: how many items one evaluation gets, for throughput.
    """

    def __init__(self, loaded: LoadedCase, values: Facts, batch: int) -> None:
        self.loaded, self.values, self.batch, self._goal = loaded, values, batch, loaded.case.goal
        self.session = loaded.open(values)
        self._binding = LearningModelBinding(self.session)
        for name, value in loaded.features.items():
            self._binding.bind(name, value)
        self._items = 1 if self._goal == LATENCY else self.batch * usable_cores()
        self.outputs = self._arrays()
        if self._goal == THROUGHPUT:  # one long stream, whose beginning and end count little
            self._items *= max(1, int(timing.BLOCK_SECONDS / max(timeit(self.evaluate, number=1), 1e-6)))

    @property
    def is_half(self) -> bool:
        """Whether it computes in half precision."""
        return self.session.precision is Precision.HALF

    def require_agreement(self, outputs: Facts) -> None:
        """Raises EvaluationError if outputs differ by more than its precision explains."""
        agreement = compare_outputs(outputs, self.outputs, HALF_TOLERANCE if self.is_half else FLOAT_TOLERANCE)
        if not agreement.is_good:
            raise EvaluationError(str(agreement))

    def remake(self) -> Rival:
        """The same again, in other memory if this one is closed: equal sessions share an engine."""
        return Rival(self.loaded, self.values, self.batch)

    def close(self) -> None:
        """Closes the session. Calling it twice is harmless."""
        self.session.close()

    def _arrays(self) -> Facts:
        """Copies of the outputs: later evaluations may write to the same memory."""
        return copy.deepcopy({name: as_numpy(value) for name, value in self.evaluate().items()})

    def evaluate(self) -> Mapping[str, Any]:
        """Evaluates once, or for throughput a stream of batches on every core; returns the last outputs."""
        if self._goal == LATENCY:
            return self.session.evaluate(self._binding).outputs
        for result in self.session.evaluate_many([self.loaded.features] * self._items, batch=self.batch):
            if result.error is not None:
                raise result.error
        return result.outputs

    def seconds(self) -> float:
        """An item's share of a block of evaluations."""
        return timing.time_block(self.evaluate) / self._items
