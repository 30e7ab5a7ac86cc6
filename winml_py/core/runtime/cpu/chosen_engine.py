"""An engine that is chosen on the program's inputs, and compared on them with a reference.

Made-up numbers do not show how another engine, or half precision, affects those of the program: a convolution that
subtracts the mean of its inputs (288 kelvin, 1013 hectopascal) loses its answer in bfloat16, but is right for numbers
around 0. So the first evaluation decides.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....enums import Precision
from ....errors import CanceledError, ClosedError, EngineWarning, IllegalCallError, SizeMismatchError, WinMLError
from ...base.agreement import is_empty
from ...base.arrays import Array
from ...base.cancellation import Stop, hold
from ...base.messages import warn_caller
from ..engine import Engine, EngineOptions, Explanation, LocalEngine, PlacedNode
from ..request import Inputs
from ..runs import Bound, fill, require_open
from .choice import CpuChoice

UNDECIDED = Explanation("undecided", Precision.AUTO, "the first evaluation decides, on its inputs")

Shapes = tuple[tuple[int, ...], ...]
"""The shapes of a model's inputs, in the order of their names."""


class ChosenEngine(LocalEngine):
    """An engine that chooses between others on the inputs of its first run.

    The first run of each set of input shapes is compared with the reference, which runs first: the alternative may not
    check whether sizes match, and overwrite memory of others. If the answers differ, that run returns the reference's,
    which runs the model from then on.

    Args:
        options: the session's.
        choice: decides, and caches the decision.

    Raises:
        WinMLError: the reference cannot be compiled.
    """

    def __init__(self, options: EngineOptions, choice: CpuChoice) -> None:
        self.options = options
        self.explanation = UNDECIDED
        self._choice = choice
        self._reference = choice.compile_reference()
        self._alternative: Engine | None = None  # None if the reference runs the model
        self._compared: set[Shapes] = set()  # input shapes on which both engines gave equal answers
        self._is_decided = False
        self._is_closed = False
        self._lock = threading.Lock()  # held to decide, and to refuse the alternative

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model; see `Engine`. Looks at the inputs in each run, because arrays are bound by reference."""
        self._require_open()
        arrays = {name: value for name, value in bound.inputs.items() if isinstance(value, np.ndarray)}
        if (self._is_decided and self._alternative is None) or any(map(_needs_reference, arrays.values())):
            return self._reference.run(bound, stop)
        self._decide(arrays, stop)
        alternative = self._alternative
        if alternative is None:
            return self._reference.run(bound, stop)
        shapes = tuple(arrays[name].shape for name in sorted(arrays))
        try:
            if shapes in self._compared:
                return alternative.run(bound, stop)
            return self._compare(alternative, shapes, bound, stop)
        except ClosedError:
            if self._alternative is alternative:
                raise
            return self._reference.run(bound, stop)  # another thread refused it before this run began

    def _decide(self, inputs: Inputs, stop: Stop | None) -> None:
        """Decides on these inputs, if nothing is decided yet; other threads wait.

        Raises:
            CanceledError: the stop was requested.
            WinMLError: the reference refuses the inputs. Nothing is decided then.
        """
        if self._is_decided:
            return
        with hold(self._lock, stop):
            if self._is_decided:
                return
            self._alternative, self.explanation = self._choice.decide(self._reference, inputs, stop)
            self._is_decided = True
        if self._is_closed:  # meanwhile: `close` did not see the alternative
            self.close()

    def _compare(self, alternative: Engine, shapes: Shapes, bound: Bound, stop: Stop | None) -> Mapping[str, Any]:
        """Runs both, the reference first and into separate arrays: bound outputs may overlap inputs."""
        expected = dict(self._reference.run(Bound(bound.inputs), stop))
        try:
            fresh = alternative.run(bound, stop)
            problem = self._choice.describe_difference(self.explanation, expected, {**fresh, **bound.outputs})
        # None of these means that the engine is wrong: a size mismatch concerns the caller's output.
        except (CanceledError, ClosedError, SizeMismatchError):
            raise
        except WinMLError as error:
            problem = f"it failed: {error}"
        if not problem:
            if not all(map(is_empty, expected.values())):  # empty answers show nothing: compare the next ones, too
                self._compared.add(shapes)
            return fresh
        remaining = fill(bound.outputs, expected)
        self._refuse(alternative, problem)
        return remaining

    def _refuse(self, alternative: Engine, problem: str) -> None:
        """Returns to the reference; raises the EngineWarning if the program turns warnings into errors."""
        with self._lock:
            if self._alternative is not alternative:  # another thread was first
                return
            self.explanation = self._choice.refuse(self.explanation, problem)
            self._alternative = None
        alternative.close()
        warn_caller(
            EngineWarning(
                f"{self.explanation.reason}. {self.explanation.engine} runs the model from now on, and gave the answer "
                "of this evaluation. Of the earlier ones, the first of each set of input shapes agreed; the others "
                "were not compared."
            )
        )

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node."""
        return self._require_chosen("placed").placement()

    def end_profiling(self) -> bytes:
        """The profile of the chosen engine."""
        return self._require_chosen("recorded").end_profiling()

    def _require_chosen(self, what: str) -> Engine:
        self._require_open()
        if not self._is_decided:
            raise IllegalCallError(f"Nothing is {what} yet: the first evaluation decides.", hint="Evaluate once.")
        return self._alternative or self._reference

    def _require_open(self) -> None:
        require_open(None if self._is_closed else self)

    def close(self) -> None:
        """Frees both engines. A decision that is under way fails, or closes the engine that it chose."""
        self._is_closed = True
        for engine in (self._reference, self._alternative):
            if engine is not None:
                engine.close()


def _needs_reference(array: Array) -> bool:
    """Whether other engines may lose the array's NaN or infinity, or end the process because it is empty."""
    return not array.size or (array.dtype.kind == "f" and not np.isfinite(array).all())
