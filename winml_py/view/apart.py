"""What measures a model for the page of the graph, in a separate process: the model may end it."""

from __future__ import annotations

from .._inputs.model import Case
from .._inputs.trial import ProcessEndedError, call_foreign
from ..core.base.messages import Facts
from ..errors import EvaluationError, EvaluationTimeoutError
from ..perf.profile import profile

_SECONDS = 60.0
"""The time limit of a measurement."""

_EVALUATIONS = 5
"""The mean times are of this many evaluations."""


def measure_nodes(case: Case) -> Facts:
    """Where each node of a model runs, and how long it takes, as in `winml-py perf --profile --json`.

    Raises:
        EvaluationTimeoutError: it took too long.
        EvaluationError: the model ended the process.
    """
    try:
        return call_foreign(_SECONDS, _measure, case)
    except TimeoutError as error:
        raise EvaluationTimeoutError(f"It took longer than {_SECONDS:g} seconds, and was stopped.") from error
    except ProcessEndedError as error:
        raise EvaluationError(
            f"The model ended the process that evaluated it: {error}.", hint="Try it on another device."
        ) from error


def _measure(case: Case) -> Facts:
    measured = profile(case, _EVALUATIONS)
    return measured.to_json() | {"caution": measured.caution}
