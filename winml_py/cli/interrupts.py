"""Ctrl-C that no library drops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def kept_interrupts() -> Iterator[Callable[[], None]]:
    """Within the block, gives a function that raises KeyboardInterrupt where a Ctrl-C came before.

    Arrow looks for pandas at each table, and drops an exception that is raised meanwhile, this one too.
    """
    came = threading.Event()

    def handle(*_: object) -> None:
        came.set()
        raise KeyboardInterrupt

    def check() -> None:
        if came.is_set():
            raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()  # no other thread gets signals
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
