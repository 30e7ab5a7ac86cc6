"""The sessions of evaluators in this process: copies of one evaluator use the same session."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from ..core.base import forks
from ..core.session.session import LearningModelSession

MOST = 4
"""Sessions that a process keeps. Engines unpickle an evaluator anew for each task, and forget it after the task."""


class SessionStore:
    """The sessions that were used last, by the evaluators' names."""

    def __init__(self) -> None:
        self._clear()
        forks.watch(self)

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, LearningModelSession] = OrderedDict()

    in_child = _clear  # the sessions of a parent process are refused

    def get(self, name: str, make: Callable[[], LearningModelSession]) -> LearningModelSession:
        """The session of a name. Threads that ask for it at once wait until one of them has made it."""
        with self._lock:
            session = self._sessions.pop(name, None)
            if session is None or session.is_lost:
                session = make()
            self._sessions[name] = session
            while len(self._sessions) > MOST:  # it is not closed: another thread may use it
                self._sessions.popitem(last=False)
            return session

    def close(self, name: str) -> None:
        """Closes the session of a name, if there is one."""
        with self._lock:
            session = self._sessions.pop(name, None)
        if session is not None:
            session.close()


SESSIONS = SessionStore()
