"""Whether a model that a command wrote is smaller and faster than the one it was made of: measured, and said."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from ..core.base.atomic_files import is_same_file
from ..core.base.machine import usable_cores
from ..core.base.messages import Facts
from ..core.features.descriptors import FeatureDescriptor, ShapedDescriptor
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.session.options import LearningModelSessionOptions
from ..inputs.examples import StatedSizes, example_inputs
from ..perf.contender import LATENCY, Contender, Loaded, Subject
from ..perf.turns import BUSY_CORES, ROUNDS, OtherPrograms, is_enough, run_race
from .style import number, say

LOOKS = 2
"""How often it is asked at most, after `ROUNDS` turns each time, whether the models are apart."""


def speed_of(model: LearningModel, paths: tuple[str, str], given: Mapping[str, object], sizes: StatedSizes) -> Any:
    """The times of two models on the CPU in turns, ready for JSON; None where the new one took the place of the old.

    Args:
        model: whose inputs they are.
        paths: of the model, and of the one that was made of it.
        given: values of the inputs; the others are examples.
        sizes: what is stated of their sizes.

    Raises:
        WinMLError: one of them cannot be evaluated.
    """
    if is_same_file(*paths):
        return None
    values, _ = example_inputs(sizes.applied(model.input_features), given)
    contenders: list[Contender] = []
    others = OtherPrograms(usable_cores())
    try:
        contenders.extend(_contender(path, values, sizes) for path in paths)
        race = run_race(
            [contender.seconds for contender in contenders],
            LOOKS * ROUNDS,
            others,
            lambda race: is_enough([race.compare(0, 1)]),
        )
    finally:
        for contender in contenders:
            contender.close()
    compared = race.compare(0, 1)
    before_ms, after_ms = compared.milliseconds
    return {
        "before_ms": before_ms,
        "after_ms": after_ms,
        "ratio": compared.gain,
        "ratio_range": list(compared.gain_range),
        "turns": compared.turns,
        "other_cores": fmean(others.cores) if others.cores else 0.0,
        "verdict": "faster" if compared.is_gain else "slower" if compared.problem == "slower" else "same",
        "problem": compared.problem,
    }


def _contender(path: str, values: Mapping[str, object], sizes: StatedSizes) -> Contender:
    loaded = Loaded(Subject(path, (), None, sizes, "cpu", LATENCY), dict(values))
    loaded.features = {
        feature.name: _as_taken(feature, values[feature.name]) for feature in loaded.model.input_features
    }
    options = LearningModelSessionOptions()
    options.batch_size_override = 0
    return Contender(loaded, options.to_dict(), 1)


def _as_taken(feature: FeatureDescriptor, value: object) -> Any:
    """A value in the type that a model takes: one that became float16 takes other arrays than before."""
    if not isinstance(value, np.ndarray) or not isinstance(feature, ShapedDescriptor):
        return value
    return value.astype(TENSOR_CLASSES[feature.tensor_kind].dtype, copy=False)


def print_speed(speed: Facts | None) -> None:
    """Prints the times."""
    if speed is None:
        return
    times = f"{number(speed['before_ms'])} ms became {number(speed['after_ms'])} ms"
    say(f"speed on the CPU: {times}, {ratio_of(speed)}")
    if speed["other_cores"] >= BUSY_CORES:
        say(f"Other programs used {speed['other_cores']:.1f} cores meanwhile.")


def ratio_of(speed: Facts) -> str:
    """How many times as fast a model is, with the interval, and why that is no gain."""
    ends = " to ".join(number(end, 2) for end in speed["ratio_range"])
    problem = f"; {speed['problem']}" if speed["problem"] else ""
    return f"{number(speed['ratio'], 2)} ({ends}) times as fast{problem}"


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
        remedy = remedies[1].format(output=output)
        say(f"{output}: It is not faster on the CPU: {ratio_of(speed)}. {remedy}", is_error=True)
