"""What a stream takes of the values in an item before it asks for the next: a source may write them again by then.

Cameras, files and sockets are read into one buffer again and again, and threads evaluate an item while the source makes
the next ones. So what the program can still write is copied; what cannot change is not.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InvalidArgumentError
from ..base.messages import type_name
from ..features.resolve import is_pil_image
from ..imaging.frame import VideoFrame


def taken(value: Any) -> Any:
    """A value that nobody else writes: itself, or a deep copy.

    Paths, bytes, frames of a `VideoReader` and picture files that Pillow has not decoded yet are not copied.

    Raises:
        InvalidArgumentError: it cannot be copied.
    """
    if isinstance(value, (str, bytes, os.PathLike, int, float, np.generic)):
        return value
    if isinstance(value, VideoFrame) and value.is_stable:
        return value
    if isinstance(value, Mapping):
        return {key: taken(element) for key, element in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(taken, value))
    if is_pil_image(value):
        return value if getattr(value, "tile", None) else value.copy()  # tiles are what is still to be decoded
    try:
        if type(value) is np.ndarray:
            return value.copy()
        if isinstance(value, memoryview):
            return np.array(value).data
        return copy.deepcopy(value)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"{type_name(value)} cannot be copied before the next item is taken: {error}.",
            hint="If every item has memory of its own, write evaluate_many(..., copy=False).",
        ) from error
