"""A model with session options, ready to be timed against another."""

from __future__ import annotations

import copy
from typing import Any

from .._inputs.files import generated, jobs, read
from .._inputs.model import Case
from ..core.base import timing
from ..core.base.agreement import FLOAT_TOLERANCE, HALF_TOLERANCE, as_numpy, compare_outputs
from ..core.base.messages import Facts
from ..core.evaluation.binding import LearningModelBinding
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..enums import Precision
from ..errors import EvaluationError


class Loaded:
    """A case with its model, device and inputs loaded; of several inputs, the first is used.

    Attributes:
        given: the values of the inputs from files, by name; empty if there are none.
        features: those, or example values.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.model, self.device = case.load(), case.find_device()
        self.given = read(self.model, next(jobs(self.model, case.inputs))[1]) if case.inputs else {}
        self.features = self.given or generated(self.model, case.sizes)

    def open(self, options: Facts) -> LearningModelSession:
        """A session with these options, as in a file."""
        return LearningModelSession(self.model, self.device, LearningModelSessionOptions.from_dict(options))


def evaluate_once(case: Case, options: Facts) -> None:
    """Makes a session with these options, and evaluates it once."""
    loaded = Loaded(case)
    with loaded.open(options) as session:
        session.evaluate_features(loaded.features)


class Rival:
    """A session, ready to be timed.

    Args:
        loaded: the model and its inputs.
        options: the session's, as in a file.
    """

    def __init__(self, loaded: Loaded, options: Facts) -> None:
        self.loaded, self.options = loaded, options
        self.session = loaded.open(options)
        self._binding = LearningModelBinding(self.session)
        for name, value in loaded.features.items():
            self._binding.bind(name, value)
        self.outputs = self._arrays()

    @property
    def is_half(self) -> bool:
        """Whether it computes in half precision."""
        return self.session.precision is Precision.HALF

    def require_agreement(self, outputs: dict[str, Any]) -> None:
        """Raises EvaluationError if outputs differ by more than its precision explains."""
        agreement = compare_outputs(outputs, self.outputs, HALF_TOLERANCE if self.is_half else FLOAT_TOLERANCE)
        if not agreement.is_good:
            raise EvaluationError(str(agreement))

    def remake(self) -> Rival:
        """The same again, in other memory if this one is closed: equal sessions share an engine."""
        return Rival(self.loaded, self.options)

    def close(self) -> None:
        """Closes the session. Calling it twice is harmless."""
        self.session.close()

    def _arrays(self) -> dict[str, Any]:
        """Copies of the outputs: later evaluations may write to the same memory."""
        outputs = self.session.evaluate(self._binding).outputs
        return copy.deepcopy({name: as_numpy(value) for name, value in outputs.items()})

    def seconds(self) -> float:
        """The time of an evaluation, from a block of them."""
        return timing.time_block(lambda: self.session.evaluate(self._binding).outputs)
