"""Values for an evaluation in a thread: checked at once, as far as that is quick, and bound in the thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from ..base.cancellation import Stop, held
from ..base.machine import usable_cores
from ..features.bind_properties import NO_PROPERTIES
from ..features.descriptors import FeatureDescriptor
from ..features.pictures import ImageFeatureValue
from ..features.resolve import as_picture, is_pil_image
from .compiled import Compiled
from .evaluation import Evaluation, check_input, check_output, is_picture_file

Bind = Callable[[Evaluation], None]


def check_features(compiled: Compiled, features: Mapping[str, object]) -> list[Bind]:
    """What binds each value later.

    Raises:
        WinMLError: as a bind does, where no picture must be decoded to find it out.
    """
    compiled.require_open()
    return [_check_feature(compiled, *compiled.find(name), value) for name, value in features.items()]


def bind_later(compiled: Compiled, binds: Iterable[Bind], stop: Stop) -> Evaluation:
    """An evaluation with the values.

    No more threads do this at once than there are cores: more would decode no faster, hold a picture each, and keep an
    event loop waiting for its turn.

    Raises:
        CanceledError: the stop was requested.
        WinMLError: as a bind does.
    """
    evaluation = Evaluation(compiled)
    with held(_core_slots(os.getpid()), stop):
        for bind in binds:
            stop.require_not_requested()
            bind(evaluation)
    return evaluation


def _check_feature(compiled: Compiled, descriptor: FeatureDescriptor, is_input: bool, value: object) -> Bind:
    if not is_input:
        output = check_output(value, descriptor, NO_PROPERTIES, compiled.location)
        return lambda evaluation: evaluation.set_output(descriptor, value, output)
    if is_picture_file(value, descriptor):
        return lambda evaluation: evaluation.bind_input(descriptor, ImageFeatureValue.load(value), NO_PROPERTIES)
    if _has_pillow(value):
        return lambda evaluation: evaluation.bind_input(descriptor, _convert_picture(value), NO_PROPERTIES)
    bindable = check_input(value, descriptor, NO_PROPERTIES, compiled.location)
    compiled.missing_contracts.tell(bindable, NO_PROPERTIES)
    return lambda evaluation: evaluation.set_input(descriptor, value, bindable)


def _has_pillow(value: object) -> bool:
    """Whether a value is a Pillow image, or a list with one: those may be decoded when they are looked at."""
    return any(map(is_pil_image, value)) if isinstance(value, (list, tuple)) else is_pil_image(value)


def _convert_picture(value: object) -> Any:
    """The value as pictures, where it is such: one thread at a time, for threads may share an image.

    Pillow decodes an image when it is first looked at, and two threads that do so at once disturb each other.
    """
    with _pillow_lock(os.getpid()):
        return as_picture(value) or value


# Of a process each: in a forked one, nobody would release those of its parent.
@cache
def _pillow_lock(process: int) -> threading.Lock:
    return threading.Lock()


@cache
def _core_slots(process: int) -> threading.Semaphore:
    return threading.Semaphore(usable_cores())
