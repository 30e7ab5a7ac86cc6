"""Pillow's own limit on the size of pictures, which some of its decoders check besides ours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_wanted: list[int] = []
_own: list[int] = []
"""Pillow's limit, while another is in force."""


@contextmanager
def allowed(pixels: int) -> Iterator[None]:
    """Within the block, Pillow decodes pictures of so many pixels.

    Pillow has one limit for the whole process. So it is raised for pictures alone that are beyond it, and while one is
    read; the last block that ends puts it back.
    """
    from PIL import Image

    with _lock:
        limit = _own[0] if _own else Image.MAX_IMAGE_PIXELS
        is_raised = limit is not None and pixels > limit
        if is_raised and limit is not None:
            _own[:] = [limit]
            _wanted.append(pixels)
            Image.MAX_IMAGE_PIXELS = max(_wanted)
    try:
        yield
    finally:
        if is_raised:
            with _lock:
                _wanted.remove(pixels)
                Image.MAX_IMAGE_PIXELS = max(_wanted, default=_own[0])
                if not _wanted:
                    _own.clear()
