"""Whether a model that a command wrote is smaller and faster than the one it was made of: measured, and said."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.base.atomic_files import is_same_file
from ..core.base.messages import Facts
from ..core.base.timing import median_turn, take_turns
from ..core.evaluation.evaluation import LearningModelBinding
from ..core.features.descriptors import (
    FeatureDescriptor,
    ShapedDescriptor,
)
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.session.session import LearningModelSession
from ..inputs.examples import StatedSizes, example_inputs
from .style import number, say


def speed_of(model: LearningModel, paths: tuple[str, str], given: Mapping[str, object], sizes: StatedSizes) -> Any:
    """The times of two models on the CPU, ready for JSON; None where the new one took the place of the old one.

    Args:
        model: whose inputs they are.
        paths: of the model, and of the one that was made of it.
        given: values of the inputs; the others are examples.
        sizes: what is stated of their sizes.
    """
    if is_same_file(*paths):
        return None
    values, _ = example_inputs(sizes.applied(model.input_features), given)
    return measure_speed(*paths, values)._asdict()


def print_speed(speed: Facts | None) -> None:
    """Prints the times."""
    if speed is None:
        return
    times = f"{number(speed['before_ms'])} ms became {number(speed['after_ms'])} ms"
    say(f"speed on the CPU: {times}, {number(speed['ratio'], 2)} times as fast")


def tell_no_gain(output: str, sizes: tuple[int, int], speed: Facts | None, remedies: tuple[str, str]) -> None:
    """Says to standard error that a model is not smaller, or not faster.

    Args:
        output: its path.
        sizes: bytes before and after.
        speed: what `speed_of` gives.
        remedies: what to do where it is not smaller, and where it is not faster; there `{output}` is the path.
    """
    if sizes[1] >= sizes[0]:
        say(f"{output}: It is not smaller: {sizes[0]:,} bytes became {sizes[1]:,}. {remedies[0]}", is_error=True)
    if speed is not None and speed["verdict"] != "faster":
        ratio = number(speed["ratio"], 2)
        remedy = remedies[1].format(output=output)
        say(f"{output}: It is not faster on the CPU: {ratio} times as fast. {remedy}", is_error=True)


# Whether a model that was made of another is faster.


GAIN = 1.03
"""A smaller gain than this may be noise."""

ROUNDS = 7
BLOCK_SECONDS = 0.02


class Speed(NamedTuple):
    """The time of an evaluation on the CPU, of a model and of one that was made of it, in the same turn: the median.

    Attributes:
        before_ms: milliseconds of the model.
        after_ms: milliseconds of the new one.
        ratio: how many times as fast the new one is: the one time over the other.
        verdict: "faster", "slower" or "same".
    """

    before_ms: float
    after_ms: float
    ratio: float
    verdict: str


def measure_speed(before: str, after: str, values: Mapping[str, object]) -> Speed:
    """Evaluates two models in turns, on the same values.

    Raises:
        WinMLError: one of them cannot be evaluated.
    """
    with (
        LearningModelSession(LearningModel.load(before)) as one,
        LearningModelSession(LearningModel.load(after)) as other,
    ):
        ones, others = take_turns([_block(session, values) for session in (one, other)], ROUNDS)
    before_s, after_s = median_turn(ones, others)
    return Speed(before_s * 1e3, after_s * 1e3, before_s / after_s, _verdict(before_s / after_s))


def _verdict(ratio: float) -> str:
    return "faster" if ratio >= GAIN else "slower" if ratio <= 1 / GAIN else "same"


def _block(session: LearningModelSession, values: Mapping[str, object]) -> Callable[[], float]:
    """Gives the seconds of an evaluation, the mean of a short block of them."""
    binding = LearningModelBinding(session)
    for feature in session.model.input_features:
        binding.bind(feature.name, _as_taken(feature, values[feature.name]))
    session.evaluate(binding)
    count = max(1, int(BLOCK_SECONDS / max(_seconds(session, binding, 1), 1e-6)))
    return lambda: _seconds(session, binding, count)


def _as_taken(feature: FeatureDescriptor, value: object) -> Any:
    """A value in the type that a model takes: one that became float16 takes other arrays than before."""
    if not isinstance(value, np.ndarray) or not isinstance(feature, ShapedDescriptor):
        return value
    return value.astype(TENSOR_CLASSES[feature.tensor_kind].dtype, copy=False)


def _seconds(session: LearningModelSession, binding: LearningModelBinding, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        session.evaluate(binding)
    return (time.perf_counter() - started) / count
