"""An engine that is chosen on the program's inputs, and checked on them against a reference.

Made-up numbers do not show how another engine, or half precision, affects those of the program: a convolution that
subtracts the mean of its inputs (288 kelvin, 1013 hectopascal) loses its answer in bfloat16, but is right for numbers
around 0. So the first evaluation decides, and later ones check.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ....enums import Precision
from ....errors import CanceledError, ClosedError, EngineWarning, IllegalCallError, SizeMismatchError, WinMLError
from ...base.arrays import Array
from ...base.cancellation import Stop, held
from ...base.messages import warn_caller
from ..engine import Engine, EngineOptions, Explanation, LocalEngine, PlacedNode
from ..request import Inputs
from ..runs import Bound, fill, require_open
from .decision import CpuChoice

UNDECIDED = Explanation("undecided", Precision.AUTO, "the first evaluation decides, on its inputs")

CHECKED = frozenset({1, 2, 4, 8, 16})
"""The evaluations that are checked. They double, because a program's first inputs are often alike, and different ones
come later. Inputs with new shapes are checked, too: another engine may not check whether sizes match, and overwrite
memory of others."""

Shapes = tuple[tuple[int, ...], ...]
"""The shapes of a model's inputs, in the order of their names."""

MOST_SHAPES = 4096
"""The number of shapes that are remembered; evaluations with further shapes are checked each time."""


class Check(NamedTuple):
    """A check that an evaluation is to make.

    Attributes:
        shapes: the shapes of its inputs.
        is_counted: whether it is one of `CHECKED`, rather than made because the shapes are new.
    """

    shapes: Shapes
    is_counted: bool


class ChosenEngine(LocalEngine):
    """An engine that chooses between others on the inputs of its first run.

    The reference stays open until the last check: in each, it runs first, and if the answers differ, that run returns
    the reference's, which runs the model from then on.

    Args:
        options: the session's.
        choice: decides, and caches the decision.

    Raises:
        WinMLError: the reference cannot be compiled.
    """

    def __init__(self, options: EngineOptions, choice: CpuChoice) -> None:
        self.options, self.explanation = options, UNDECIDED
        self.choice = choice
        self.rival: Engine | None = None
        self._reference: Engine | None = choice.compile_reference()
        self._is_decided = self._is_closed = False
        self._deciding = threading.Lock()
        self._lock = threading.Lock()  # guards the attributes below; only compiling the reference holds it long
        self._users = 0  # runs that are using the reference
        self._evaluations, self._checks_owed, self._checks_left = 0, 0, len(CHECKED)
        self._checked: set[Shapes] = set()
        # Set by inputs that the rival must not get, such as NaN: later ones would compile the reference again.
        self._keeps_reference = False

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        """Runs the model; see `Engine`. Checks the inputs in each run, because arrays are bound by reference."""
        self._require_open()
        reference = self._reference
        if self._is_decided and self.rival is None and reference is not None:
            return reference.run(bound, stop)  # the reference was chosen: no more checks
        arrays = {name: value for name, value in bound.inputs.items() if isinstance(value, np.ndarray)}
        if self.choice.is_guarded and not all(map(_is_finite, arrays.values())):
            return self._run_reference(bound, stop)
        self.settle(arrays, stop)
        rival = self.rival
        if rival is None:
            return self._run_reference(bound, stop)
        shapes = tuple(arrays[name].shape for name in sorted(arrays))
        try:
            check = self.next_check(shapes)
            return rival.run(bound, stop) if check is None else self._run_checked(rival, check, bound, stop)
        except ClosedError:
            if self.rival is rival:
                raise
            return self._run_reference(bound, stop)  # another thread's check closed it before this run began

    def _run_reference(self, bound: Bound, stop: Stop | None) -> Mapping[str, Any]:
        with self.reference(is_needed_again=True) as reference:
            return reference.run(bound, stop)

    def _run_checked(self, rival: Engine, check: Check, bound: Bound, stop: Stop | None) -> Mapping[str, Any]:
        """Runs both, the reference first and into separate arrays: bound outputs may overlap inputs."""
        try:
            with self.reference(is_needed_again=self.has_made_all_checks) as reference:
                expected = dict(reference.run(Bound(bound.inputs), stop))
            try:
                fresh = rival.run(bound, stop)
                problem = self.choice.problem_of(self.explanation, expected, {**fresh, **bound.outputs})
            # None of these means that the engine is wrong: a size mismatch concerns the caller's output.
            except (CanceledError, ClosedError, SizeMismatchError):
                raise
            except WinMLError as error:
                problem = f"it failed: {error}"
        except BaseException:
            self.put_off(check)
            raise
        if not problem:
            self.pass_check(rival, check)
            return fresh
        remaining = fill(bound.outputs, expected)
        self.refuse(rival, problem)
        return remaining

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node."""
        return self._current("placed").placement()

    def end_profiling(self) -> bytes:
        """The profile of the chosen engine."""
        return self._current("recorded").end_profiling()

    def _current(self, what: str) -> Engine:
        self._require_open()
        if not self._is_decided:
            raise IllegalCallError(f"Nothing is {what} yet: the first evaluation decides.", hint="Evaluate once.")
        return self.rival or require_open(self._reference)

    def _require_open(self) -> None:
        require_open(None if self._is_closed else self)

    def settle(self, inputs: Inputs, stop: Stop | None) -> None:
        """Decides on these inputs, if nothing is decided yet; other threads wait.

        Raises:
            CanceledError: the stop was requested.
            WinMLError: the reference refuses the inputs. Nothing is decided then.
        """
        self._require_open()
        if self._is_decided:
            return
        try:
            with held(self._deciding, stop):
                self._require_open()
                if self._is_decided:
                    return
                decision = self.choice.decide(require_open(self._reference), inputs, stop)
                with self._lock:
                    self.rival, self.explanation, self._is_decided = *decision, True
                    self._checks_left = 0 if decision.rival is None else len(CHECKED)
        finally:
            if self._is_closed:  # meanwhile; `close` sets this before it tries `_deciding`
                self._close_both()
        self._close_reference_if_idle()

    def next_check(self, shapes: Shapes) -> Check | None:
        """Counts an evaluation; returns the check that it must make."""
        with self._lock:
            if self._checks_left:
                self._evaluations += 1
                self._checks_owed += self._evaluations in CHECKED
                if self._checks_owed:
                    self._checks_owed -= 1
                    return Check(shapes, is_counted=True)
            is_new = self.choice.is_guarded and shapes not in self._checked
            return Check(shapes, is_counted=False) if is_new else None

    @property
    def has_made_all_checks(self) -> bool:
        """Whether only new shapes are still checked; more may come, so the reference stays open."""
        return not self._checks_left

    def put_off(self, check: Check) -> None:
        """Leaves a check without a result to the next evaluation."""
        with self._lock:
            self._checks_owed += check.is_counted

    def pass_check(self, rival: Engine, check: Check) -> None:
        """Notes a check that agreed; after the last one, closes the reference."""
        with self._lock:
            if self.rival is not rival:
                return
            if len(self._checked) < MOST_SHAPES:
                self._checked.add(check.shapes)
            self._checks_left -= check.is_counted
            is_last = check.is_counted and not self._checks_left
        if is_last:
            self._close_reference_if_idle()

    def refuse(self, rival: Engine, problem: str) -> None:
        """Returns to the reference, because a check did not agree.

        Raises:
            EngineWarning: if the program turns warnings into errors.
        """
        with self._lock:
            if self.rival is not rival:  # another thread was first
                return
            self.rival, self._checks_left = None, 0
        # Outside of the lock, because this writes to the disk.
        before, self.explanation = self.explanation, self.choice.refuse(self.explanation, problem)
        # Before the warning, which the program may turn into an error.
        rival.close()
        name = f"{before.engine} in {before.number_type or before.precision.name.lower()}"
        warn_caller(
            EngineWarning(
                f"{name} gave another answer than {self.explanation.engine} on an input of the program: {problem}. "
                f"{self.explanation.engine} runs the model from now on, and gave the answer of this evaluation; those "
                "since the previous check were not compared. `session.explain()` says more."
            )
        )

    @contextmanager
    def reference(self, is_needed_again: bool = False) -> Iterator[Engine]:
        """Yields the reference, compiled again if it was closed after the last check."""
        with self._lock:
            self._require_open()
            self._keeps_reference = self._keeps_reference or is_needed_again
            self._reference = self._reference or self.choice.compile_reference()
            reference = self._reference
            self._users += 1
        try:
            yield reference
        finally:
            with self._lock:
                self._users -= 1
            self._close_reference_if_idle()

    def _close_reference_if_idle(self) -> None:
        """Closes the reference if it is unused and no longer needed, so that the rival can use its memory."""
        with self._lock:
            is_used = self._users or self._checks_left or self._keeps_reference
            if self._reference is None or self.rival is None or is_used:
                return
            reference, self._reference = self._reference, None
            self.explanation = self.choice.without_reference(self.explanation)
        reference.close()

    def close(self) -> None:
        """Frees both engines; during a decision, as soon as that is done."""
        self._is_closed = True
        # A deciding thread is using both engines; it closes them when it is done, because `_is_closed` is set.
        if self._deciding.acquire(blocking=False):
            try:
                self._close_both()
            finally:
                self._deciding.release()

    def _close_both(self) -> None:
        with self._lock:
            engines = self._reference, self.rival
            self._reference = None
        for engine in engines:
            if engine is not None:
                engine.close()


def _is_finite(array: Array) -> bool:
    return array.size > 0 and (array.dtype.kind != "f" or bool(np.isfinite(array).all()))
