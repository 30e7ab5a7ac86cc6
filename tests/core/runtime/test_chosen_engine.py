"""An engine that is chosen on the program's own inputs, and compared on them: engines and choice are substitutes."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from winml_py import CanceledError, ClosedError, EvaluationError, Precision, SizeMismatchError
from winml_py.core.base.cancellation import Stop
from winml_py.core.runtime.cpu.choice import CpuChoice, Decision
from winml_py.core.runtime.cpu.chosen_engine import ChosenEngine
from winml_py.core.runtime.engine import EngineOptions, Explanation, LocalEngine, PlacedNode
from winml_py.core.runtime.runs import Bound, fill, require_open
from winml_py.errors import EngineWarning, IllegalCallError


class Plain(LocalEngine):
    """An engine that computes y from x with a function, and counts."""

    options = EngineOptions(1)

    def __init__(self, name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
        self.explanation = Explanation(name, Precision.FLOAT32, "as asked for")
        self.function = function
        self.runs, self.is_open = 0, True
        self.on_run: Callable[[Stop | None], object] = lambda stop: None
        self.lock = threading.Lock()

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Any]:
        require_open(self if self.is_open else None)
        with self.lock:
            self.runs += 1
        self.on_run(stop)
        x: Any = bound.inputs["x"]
        y: Any = bound.outputs.get("y")
        if y is not None:
            y[...] = -1  # an engine may write before it has read
        return fill(bound.outputs, {"y": self.function(x)})

    def placement(self) -> list[PlacedNode]:
        return [PlacedNode("y", "Function", self.explanation.engine)]

    def end_profiling(self) -> bytes:
        return self.explanation.engine.encode()

    def close(self) -> None:
        self.is_open = False


class Choices:
    """Takes the alternative, and writes down what it is told."""

    def __init__(self, alternative: Plain | None) -> None:
        self.reference, self.alternative = Plain("reference", lambda x: x * 2), alternative
        self.decided: list[np.ndarray] = []
        self.refused: list[str] = []
        self.deciding: Callable[[], object] = lambda: None

    def compile_reference(self) -> Plain:
        return self.reference

    def decide(self, reference: Any, inputs: Mapping[str, np.ndarray], stop: Stop | None) -> Decision:
        self.decided.append(inputs["x"].copy())
        self.deciding()
        if self.alternative is None:
            return Decision(None, Explanation("reference", Precision.FLOAT32, "faster"))
        explanation = Explanation("alternative", Precision.HALF, "faster", number_type="bfloat16", memory=30)
        return Decision(self.alternative, explanation)

    def describe_difference(
        self, explanation: Explanation, expected: Mapping[str, Any], came: Mapping[str, Any]
    ) -> str:
        assert explanation.engine == "alternative"
        return "" if np.array_equal(expected["y"], came["y"]) else "they differ"

    def refuse(self, explanation: Explanation, problem: str) -> Explanation:
        self.refused.append(problem)
        return Explanation("reference", Precision.FLOAT32, f"the alternative is wrong: {problem}")


@contextmanager
def told() -> Iterator[list[str]]:
    """The warnings within the block."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        texts: list[str] = []
        yield texts
    assert {each.category for each in seen} <= {EngineWarning}
    texts += [str(each.message) for each in seen]


def fail(stop: Stop | None) -> None:
    raise EvaluationError("Index 7 is outside.")


def doubling() -> Plain:
    return Plain("alternative", lambda x: x * 2)


def double_below(limit: float) -> Plain:
    """An alternative that is right as long as no number is large."""
    return Plain("alternative", lambda x: np.where(x < limit, x * 2, 0).astype(x.dtype))


def chosen(alternative: Plain | None) -> tuple[ChosenEngine, Choices]:
    choices = Choices(alternative)
    return ChosenEngine(EngineOptions(1), choices), choices


def evaluate(engine: ChosenEngine, *numbers: float, stop: Stop | None = None) -> list[float]:
    result: list[float] = engine.run(Bound({"x": np.float32(numbers)}), stop)["y"].tolist()
    return result


def test_the_first_evaluation_of_each_set_of_shapes_is_compared() -> None:
    alternative = doubling()
    engine, choices = chosen(alternative)
    assert (engine.explanation.engine, engine.explanation.precision) == ("undecided", Precision.AUTO)
    both = []
    for number, size in enumerate((1, 1, 2, 1, 3, 2, 3), 1):
        before = choices.reference.runs
        assert evaluate(engine, *range(size)) == [2 * each for each in range(size)]
        assert alternative.runs == number
        if choices.reference.runs > before:
            both.append(number)
    assert both == [1, 3, 5]
    assert [array.tolist() for array in choices.decided] == [[0]]  # the caller's own numbers
    assert engine.explanation.memory == 30
    assert engine.placement() == alternative.placement()
    assert engine.end_profiling() == b"alternative"


def test_where_they_differ_the_references_numbers_are_the_answer_and_it_stays() -> None:
    alternative = double_below(4)
    engine, choices = chosen(alternative)
    assert evaluate(engine, 1) == [2]
    assert evaluate(engine, 5) == [0]  # these shapes have been compared
    x, y = np.float32([5, 6]), np.float32([0, 0])
    bound = Bound({"x": x}, {"y": y})
    with told() as warned:
        for number in (5, 6):
            x[:] = number
            assert engine.run(bound) == {}
            assert y.tolist() == [number * 2] * 2
    assert [text.split(". ")[0] for text in warned] == ["the alternative is wrong: they differ"]
    assert choices.refused == ["they differ"]
    assert str(engine.explanation) == "reference in float32: the alternative is wrong: they differ"
    assert not alternative.is_open
    assert evaluate(engine, 5) == [10]
    other = np.float32([0, 0])
    bound.set_output("y", other)
    engine.run(bound)
    assert other.tolist() == [12, 12]


def test_an_empty_answer_shows_nothing_and_the_next_is_compared() -> None:
    """As of a detector that finds nothing in the first pictures."""
    alternative = Plain("alternative", lambda x: x[x > 0] * 3)
    engine, choices = chosen(alternative)
    choices.reference.function = lambda x: x[x > 0] * 2
    assert evaluate(engine, -1) == evaluate(engine, -2) == []
    with told():
        assert evaluate(engine, 1) == [2]
    assert choices.refused == ["they differ"]


def test_empty_answers_of_two_engines_are_no_difference() -> None:
    choice, explanation = CpuChoice.__new__(CpuChoice), Explanation("other", Precision.FLOAT32, "")
    nothing, boxes = np.zeros((0, 4), np.float32), np.float32([[1, 2, 3, 4]])
    for first, second, is_same in (
        (nothing, nothing, True),
        (nothing, boxes, False),
        (boxes, nothing, False),
        (boxes, boxes, True),
        (boxes, 2 * boxes, False),
    ):
        for more in ({}, {"count": np.int64([1])}):
            problem = choice.describe_difference(explanation, {"y": first} | more, {"y": second} | more)
            assert (problem == "") is is_same


def test_the_reference_runs_first_because_outputs_may_lie_over_inputs() -> None:
    for alternative, texts in ((doubling(), 0), (Plain("alternative", lambda x: x * 3), 1)):
        engine, choices = chosen(alternative)
        order: list[str] = []
        choices.reference.on_run = lambda stop, order=order: order.append("reference")
        alternative.on_run = lambda stop, order=order: order.append("alternative")
        state = np.float32([7])
        alternative.function = lambda x, function=alternative.function: function(
            np.float32([7])
        )  # engines keep these apart
        with told() as warned:
            engine.run(Bound({"x": state}, {"y": state}))
        assert state.tolist() == [14]
        assert order == ["reference", "alternative"]
        assert len(warned) == texts


def test_a_alternative_that_fails_is_wrong() -> None:
    alternative = doubling()
    engine, choices = chosen(alternative)
    alternative.on_run = fail
    with told() as warned:
        assert evaluate(engine, 2) == [4]
    assert "it failed: Index 7 is outside." in warned[0]
    assert choices.refused == ["it failed: Index 7 is outside."]


def test_what_the_reference_refuses_is_its_error_and_no_other_engine_sees_it() -> None:
    alternative = doubling()
    engine, choices = chosen(alternative)
    evaluate(engine, 1)
    runs = alternative.runs
    choices.reference.on_run = fail
    for _ in range(2):
        with pytest.raises(EvaluationError, match="Index 7"):
            evaluate(engine, 2, 3)
    assert alternative.runs == runs
    choices.reference.on_run = lambda stop: None
    before = choices.reference.runs
    assert evaluate(engine, 3, 4) == [6, 8]
    assert choices.reference.runs == before + 1


def test_memory_that_does_not_fit_is_no_wrong_answer() -> None:
    engine, choices = chosen(doubling())
    with pytest.raises(SizeMismatchError):
        engine.run(Bound({"x": np.float32([1, 2])}, {"y": np.zeros(3, np.float32)}))
    assert choices.refused == []
    assert evaluate(engine, 1) == [2]
    assert engine.explanation.engine == "alternative"


def test_a_stop_spans_both_runs_and_the_next_evaluation_is_compared() -> None:
    alternative = doubling()
    engine, choices = chosen(alternative)

    def stopped(stop: Stop | None) -> None:
        assert stop is not None
        stop.request()
        stop.require_not_requested()

    for place in (choices.reference, alternative):
        place.on_run = stopped
        with pytest.raises(CanceledError):
            evaluate(engine, 2, stop=Stop())
        place.on_run = lambda stop: None
    before = choices.reference.runs
    evaluate(engine, 3)
    evaluate(engine, 4)
    assert choices.reference.runs == before + 1
    waits = Stop()
    waits.request()
    undecided, others = chosen(doubling())
    others.deciding = waits.require_not_requested
    with pytest.raises(CanceledError):
        evaluate(undecided, 1)
    assert undecided.explanation.engine == "undecided"
    others.deciding = lambda: None
    assert evaluate(undecided, 1) == [2]
    assert undecided.explanation.engine == "alternative"


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_goes_to_the_reference_and_decides_nothing(odd: float) -> None:
    alternative = Plain("alternative", lambda x: np.nan_to_num(x) * 2)
    engine, _ = chosen(alternative)
    for _ in range(2):
        assert np.array_equal(evaluate(engine, odd), [odd * 2], equal_nan=True)
        assert evaluate(engine) == []  # nor what is empty
        assert engine.explanation.engine == "undecided"
    evaluate(engine, 1)
    runs = alternative.runs
    assert np.array_equal(evaluate(engine, odd), [odd * 2], equal_nan=True)
    assert evaluate(engine) == []
    assert alternative.runs == runs


def test_eight_threads_decide_once() -> None:
    for _ in range(5):
        alternative = doubling()
        engine, choices = chosen(alternative)
        with ThreadPoolExecutor(8) as pool:
            came = list(pool.map(lambda number, engine=engine: evaluate(engine, number), range(200)))
        assert came == [[number * 2] for number in range(200)]
        assert 1 <= choices.reference.runs <= 8  # others began before the first comparison had ended
        assert alternative.runs == 200
        assert len(choices.decided) == 1


def test_a_thread_whose_alternative_is_closed_meanwhile_goes_on_with_the_reference() -> None:
    for _ in range(20):
        engine, _ = chosen(double_below(4))
        evaluate(engine, 1)
        barrier = threading.Barrier(8)

        def run(size: int, engine: ChosenEngine = engine, barrier: threading.Barrier = barrier) -> list[list[float]]:
            barrier.wait(10)
            return [evaluate(engine, *[5] * size) for _ in range(2)]

        with told() as warned, ThreadPoolExecutor(8) as pool:
            came = list(pool.map(run, range(2, 10)))
        assert came == [[[10] * size] * 2 for size in range(2, 10)]
        assert len(warned) == 1


def test_nothing_is_placed_before_the_first_evaluation() -> None:
    engine, _ = chosen(doubling())
    for ask in (engine.placement, engine.end_profiling):
        with pytest.raises(IllegalCallError, match="Evaluate once"):
            ask()


def test_closing() -> None:
    alternative = doubling()
    engine, choices = chosen(alternative)
    evaluate(engine, 1)
    engine.close()
    assert (alternative.is_open, choices.reference.is_open) == (False, False)
    for ask in (lambda: evaluate(engine, 1), engine.placement):
        with pytest.raises(ClosedError):
            ask()
    engine.close()


@pytest.mark.parametrize("waiters", [0, 3])
def test_closing_while_the_first_evaluation_decides_leaves_no_engine_open(waiters: int) -> None:
    alternative = doubling()
    engine, choices = chosen(alternative)
    deciding, closed = threading.Event(), threading.Event()

    def decide() -> None:
        deciding.set()
        assert closed.wait(10)

    choices.deciding = decide
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(evaluate, engine, 1)
        assert deciding.wait(10)
        others = [pool.submit(evaluate, engine, 1) for _ in range(waiters)]
        engine.close()
        closed.set()
        for each in (first, *others):
            with pytest.raises(ClosedError):
                each.result(60)
    assert (alternative.is_open, choices.reference.is_open) == (False, False)


def test_closing_in_a_comparison_leaves_no_engine_open() -> None:
    alternative = doubling()
    engine, choices = chosen(alternative)
    evaluate(engine, 1)
    choices.reference.on_run = lambda stop: engine.close()
    with pytest.raises(ClosedError):
        evaluate(engine, 2, 3)
    assert (alternative.is_open, choices.reference.is_open) == (False, False)
    assert choices.refused == []
