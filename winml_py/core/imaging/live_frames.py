"""LiveFrames: a thread that reads a live source, and drops the frames that nobody has time for."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable

from ...errors import IllegalCallError
from ..base import forks
from .frame import VideoFrame


class LiveFrames:
    """The newest frames of a source, which a thread reads as they come.

    Args:
        read: gives the next frame, or None at the end of the source.
        kept: how many frames wait to be asked for, at most.

    Attributes:
        dropped: how many frames nobody was given.
    """

    def __init__(self, read: Callable[[], VideoFrame | None], kept: int) -> None:
        self.dropped = 0
        self._state = _State(read, kept)
        self._is_inherited = False
        forks.watch(self)
        threading.Thread(target=self._state.run, name="winml-py camera", daemon=True).start()
        weakref.finalize(self, self._state.stop)

    def in_child(self) -> None:
        """After a fork, the thread is the parent's."""
        self._is_inherited = True

    @property
    def is_ready(self) -> bool:
        """Whether `read` returns at once."""
        return bool(self._state.frames) or self._state.is_ended

    def read(self) -> VideoFrame | None:
        """The oldest frame that is kept; waits for one. None at the end.

        Raises:
            IllegalCallError: another process reads the source, and this one was forked from it.
        """
        if self._is_inherited:
            raise IllegalCallError(
                "The reader was made before a fork, and its thread is in the parent process alone.",
                hint="Open the camera in this process.",
            )
        frame, dropped = self._state.take()
        self.dropped += dropped
        if frame is not None and dropped:
            frame.is_discontinuous = True
        return frame

    def close(self) -> None:
        """Ends the thread, and whoever waits for a frame. Twice is harmless."""
        if not self._is_inherited:
            self._state.stop()


class _State:
    """What the thread and the readers share. The thread holds this alone, so that a reader nobody has is collected."""

    def __init__(self, read: Callable[[], VideoFrame | None], kept: int) -> None:
        self._read, self._kept = read, kept
        self.frames: deque[VideoFrame] = deque()
        self.is_ended = False
        self._dropped = 0
        self._failure: Exception | None = None
        self._changed = threading.Condition()

    def run(self) -> None:
        """Reads until the source or the reader ends."""
        try:
            while not self.is_ended and (frame := self._read()) is not None:
                self._put(frame)
        except Exception as failure:  # whoever reads next is told
            self._failure = failure
        self.stop()

    def _put(self, frame: VideoFrame) -> None:
        with self._changed:
            if len(self.frames) == self._kept:
                self.frames.popleft()
                self._dropped += 1
            self.frames.append(frame)
            self._changed.notify()

    def take(self) -> tuple[VideoFrame | None, int]:
        """The oldest frame, and how many were dropped before it."""
        with self._changed:
            self._changed.wait_for(lambda: self.frames or self.is_ended)
            dropped, self._dropped = self._dropped, 0
            if self.frames:
                return self.frames.popleft(), dropped
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return None, dropped

    def stop(self) -> None:
        """Ends the thread after the frame that it reads."""
        with self._changed:
            self.is_ended = True
            self._changed.notify_all()
