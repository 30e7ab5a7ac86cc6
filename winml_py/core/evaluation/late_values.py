"""Values for an evaluation in a thread: checked at once if that is quick, and bound in the thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from ..base.cancellation import Stop, held
from ..base.machine import usable_cores
from ..features.pictures import ImageFeatureValue
from ..features.resolve import as_picture, is_pil_image
from .binding import BindingState
from .session_state import SessionState, Target, is_picture_file


class LateValue(NamedTuple):
    """A feature's name, the caller's value, and the result of its check: None for a picture that must be decoded."""

    name: str
    value: object
    target: Target | None


def check_features(session_state: SessionState, features: Mapping[str, object]) -> list[LateValue]:
    """Checks values that will be bound later.

    Raises:
        WinMLError: as a bind does, except for pictures that must be decoded first.
    """
    session_state.require_open()
    session_state.require_distinct(features)
    values = []
    for name, value in features.items():
        descriptor, is_input = session_state.find(name)
        # A check would decode the pictures.
        images = map(is_pil_image, value if isinstance(value, (list, tuple)) else [value])
        if is_input and (is_picture_file(value, descriptor) or any(images)):
            values.append(LateValue(name, value, None))
        else:
            name, target = session_state.check(name, value)
            values.append(LateValue(name, value, target))
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
        for name, value, target in values:
            stop.require_not_requested()
            if target is not None:
                binding_state.set(name, value, target)
            elif isinstance(value, (str, bytes, os.PathLike)):  # a picture's path or bytes: others have been checked
                binding_state.bind(name, ImageFeatureValue.load(value))
            else:
                binding_state.bind(name, _convert_picture(value))
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
