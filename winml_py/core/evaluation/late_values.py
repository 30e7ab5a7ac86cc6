"""Values for an evaluation in a thread: checked at once, as far as that is quick, and bound in the thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from ..base.cancellation import Stop, held
from ..base.machine import usable_cores
from ..features.descriptors import FeatureDescriptor
from ..features.pictures import NO_PROPERTIES, ImageFeatureValue
from ..features.resolve import Bindable, as_picture, is_pil_image
from .evaluation import BindingState, CheckedOutput, check_input, check_output, is_picture_file
from .session_state import SessionState


class LateValue(NamedTuple):
    """A value that is bound in a thread.

    Attributes:
        descriptor: the feature.
        value: the caller's.
        checked: what it was found to be; None of a picture that must be decoded to find it out.
    """

    descriptor: FeatureDescriptor
    value: object
    checked: Bindable | CheckedOutput | None


def check_features(session_state: SessionState, features: Mapping[str, object]) -> list[LateValue]:
    """What is to be bound later.

    Raises:
        WinMLError: as a bind does, where no picture must be decoded to find it out.
    """
    session_state.require_open()
    values = []
    for name, value in features.items():
        descriptor, is_input = session_state.find(name)
        checked: Bindable | CheckedOutput | None = None
        if not is_input:
            checked = check_output(value, descriptor, NO_PROPERTIES, session_state)
        elif not is_picture_file(value, descriptor) and not any(
            map(is_pil_image, value if isinstance(value, (list, tuple)) else [value])  # decoded when they are looked at
        ):
            checked = check_input(value, descriptor, NO_PROPERTIES, session_state)
        values.append(LateValue(descriptor, value, checked))
    return values


def bind_later(session_state: SessionState, values: Iterable[LateValue], stop: Stop) -> BindingState:
    """An evaluation with the values.

    No more threads do this at once than there are cores: more would decode no faster, hold a picture each, and keep an
    event loop waiting for its turn.

    Raises:
        CanceledError: the stop was requested.
        WinMLError: as a bind does.
    """
    evaluation = BindingState(session_state)
    with held(_core_slots(os.getpid()), stop):
        for descriptor, value, checked in values:
            stop.require_not_requested()
            if isinstance(checked, CheckedOutput):
                evaluation.set_output(descriptor, value, checked)
            elif checked is not None:
                evaluation.set_input(descriptor, value, checked)
            else:
                is_file = is_picture_file(value, descriptor)
                picture = ImageFeatureValue.load(value) if is_file else _convert_picture(value)  # type: ignore[arg-type]
                evaluation.bind_input(descriptor, picture, NO_PROPERTIES)
    return evaluation


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
