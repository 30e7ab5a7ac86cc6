"""Giving freed memory back to the system."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache


def trim() -> None:
    """Asks the C library to return what has been freed; only glibc keeps so much that it needs asking.

    Without it a closed session of hundreds of megabytes can stay resident for the life of the process.
    """
    call = None if sys.is_finalizing() else _malloc_trim()
    if call is not None:
        call(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    import ctypes

    # musl has no such function
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
