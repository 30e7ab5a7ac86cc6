"""Thread pools that the whole process shares."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


def shared_pool(name: str, workers: int) -> ThreadPoolExecutor:
    """The pool of a name, made when it is first asked for.

    A forked process gets pools of its own: the threads of its parent's are not there, and work would wait forever.

    Args:
        name: of its threads, in debuggers.
        workers: threads, at most.
    """
    return _pool(os.getpid(), name, workers)


@cache
def _pool(process: int, name: str, workers: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, name)
