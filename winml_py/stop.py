"""Stop: how one thread ends what another one does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import CanceledError


class Stop:
    """One run's way to be stopped from another thread, at the next node boundary: a running kernel goes on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._terminate: Callable[[], None] | None = None
        self.requested = False

    def request(self) -> None:
        """Stops the run, or keeps it from starting."""
        with self._lock:
            self.requested = True
            if self._terminate is not None:
                self._terminate()

    @contextmanager
    def reaching(self, terminate: Callable[[], None]) -> Iterator[None]:
        """Within the block, a request calls `terminate`; one that came before ends it here.

        Raises:
            CanceledError: the stop was requested before.
        """
        with self._lock:
            self.require_not_requested()
            self._terminate = terminate
        try:
            yield
        finally:
            with self._lock:
                self._terminate = None

    def require_not_requested(self) -> None:
        """Raises CanceledError once the stop has been requested."""
        if self.requested:
            raise CanceledError("The evaluation was cancelled.")
