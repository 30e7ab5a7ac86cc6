"""Whether a model that a command wrote is smaller and faster than the one it was made of: said where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.features.example_inputs import StatedSizes, example_inputs
from ..core.model.model import LearningModel
from ..perf.speed import measure_speed
from .arguments import is_same_file
from .style import number, say


def speed_of(model: LearningModel, paths: tuple[str, str], given: Mapping[str, Any], sizes: StatedSizes) -> Any:
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


def print_speed(speed: dict[str, Any] | None) -> None:
    """Prints the times."""
    if speed is None:
        return
    times = f"{number(speed['before_ms'])} ms became {number(speed['after_ms'])} ms"
    say(f"speed on the CPU: {times}, {number(speed['ratio'], 2)} times as fast")


def tell_no_gain(output: str, sizes: tuple[int, int], speed: dict[str, Any] | None, remedies: tuple[str, str]) -> None:
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
