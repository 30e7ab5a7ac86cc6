"""Values for an evaluation in a thread: checked at once if that is quick, and bound in the thread."""

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
from .evaluation import BindingState, CheckedOutput, check_input, check_output, is_picture_file, require_distinct
from .session_state import SessionState


class LateValue(NamedTuple):
    """A value that is bound in a thread.

    Attributes:
        descriptor: the feature.
        value: the caller's.
        checked: the result of its check; None for a picture that must be decoded first.
    """

    descriptor: FeatureDescriptor
    value: object
    checked: Bindable | CheckedOutput | None


def check_features(session_state: SessionState, features: Mapping[str, object]) -> list[LateValue]:
    """Checks values that will be bound later.

    Raises:
        WinMLError: as a bind does, except for pictures that must be decoded first.
    """
    session_state.require_open()
    require_distinct(features, session_state)
    values = []
    for name, value in features.items():
        descriptor, is_input = session_state.find(name)
        checked: Bindable | CheckedOutput | None = None
        if not is_input:
            checked = check_output(value, descriptor, NO_PROPERTIES, session_state)
        elif not is_picture_file(value, descriptor) and not any(
            map(is_pil_image, value if isinstance(value, (list, tuple)) else [value])  # checking them would decode them
        ):
            checked = check_input(value, descriptor, NO_PROPERTIES, session_state)
        values.append(LateValue(descriptor, value, checked))
    return values


def bind_later(session_state: SessionState, values: Iterable[LateValue], stop: Stop) -> BindingState:
    """Binds the values.

    At most as many threads do this at once as there are cores: more would decode no faster, hold a picture each, and
    delay an event loop.

    Raises:
        CanceledError: the stop was requested.
        WinMLError: as a bind does.
    """
    binding_state = BindingState(session_state)
    with held(_core_slots(os.getpid()), stop):
        for descriptor, value, checked in values:
            stop.require_not_requested()
            if isinstance(checked, CheckedOutput):
                binding_state.set_output(descriptor, value, checked)
            elif checked is not None:
                binding_state.set_input(descriptor, value, checked)
            else:
                is_file = is_picture_file(value, descriptor)
                picture = ImageFeatureValue.load(value) if is_file else _convert_picture(value)  # type: ignore[arg-type]
                binding_state.bind_input(descriptor, picture, NO_PROPERTIES)
    return binding_state


def _convert_picture(value: object) -> Any:
    """Converts Pillow images, in one thread at a time because threads may share an image; returns others as they are.

    Pillow decodes an image on first access, and cannot do so in two threads at once.
    """
    with _pillow_lock(os.getpid()):
        return as_picture(value) or value


# One for each process: in a forked one, the parent's would never be released.
@cache
def _pillow_lock(process: int) -> threading.Lock:
    return threading.Lock()


@cache
def _core_slots(process: int) -> threading.Semaphore:
    return threading.Semaphore(usable_cores())
