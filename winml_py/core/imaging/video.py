"""VideoReader: the frames of a video file or a camera."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, BinaryIO

from ...enums import BitmapPixelFormat, FramePolicy
from ...errors import (
    ClosedError,
    IllegalCallError,
    InvalidArgumentError,
    PictureError,
    PictureNotFoundError,
    WinMLError,
)
from ..base import child_process
from ..base.arguments import is_stream, member, read_bytes, whole_number
from ..base.file_kinds import missing_file_hint
from ..base.winrt_object import Closeable
from .bitmap import SoftwareBitmap
from .frame import VideoFrame
from .video_writer import require_whole_video


class VideoReader(Closeable):
    """Reads a video frame by frame, by OpenCV. Sound is not read.

    Iterating gives each frame once, with its time in `relative_time`; each frame has its own memory. Threads may read
    at the same time. The reader is closed by `close`, by `with`, or at the end of the video.

    Args:
        source: the path of a video file, an open binary file, of which a temporary copy is made until the reader is
            closed, or the number of a camera, 0 being the first.
        policy: what becomes of a camera's frames while the program is busy. With `DROP_OLDEST` and `LATEST` a thread
            reads, once the program has asked for a frame, and a frame after dropped ones has `is_discontinuous`. Files
            wait by themselves: leave it out for them.
        kept: with `DROP_OLDEST`, how many frames wait to be read, at most.

    Raises:
        PictureNotFoundError: there is no such file.
        InvalidArgumentError: neither a path nor the number of a camera, or no such policy.
        PictureError: it is no video that can be read, or one that is cut off; a list or a pattern of other files; or
            there is no such camera.

    Example:
        >>> from winml_py import VideoReader
        >>> try:
        ...     VideoReader("nowhere.mp4")
        ... except FileNotFoundError as error:
        ...     print(error)
        nowhere.mp4: There is no such video. Check the working directory.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | BinaryIO | int,
        /,
        *,
        policy: FramePolicy = FramePolicy.WAIT,
        kept: int = 8,
    ) -> None:
        self._policy = member(FramePolicy, policy, "The policy of a reader")
        self._kept = whole_number(kept, "The number of frames that are kept", 1)
        self._capture = _Capture(source)
        self._live: LiveFrames | None = None
        self._start = threading.Lock()

    @property
    def pixel_width(self) -> int:
        """Pixels in a row."""
        return self._capture.width

    @property
    def pixel_height(self) -> int:
        """Rows."""
        return self._capture.height

    @property
    def frame_rate(self) -> float:
        """Frames a second, or 0 where the source does not say."""
        return self._capture.rate

    @property
    def frame_count(self) -> int:
        """The number of frames that the file's header states, which may be wrong; 0 for a camera."""
        return self._capture.count

    @property
    def policy(self) -> FramePolicy:
        """What becomes of frames while the program is busy."""
        return self._policy

    @property
    def dropped(self) -> int:
        """How many frames nobody was given, up to the frame that was read last."""
        return self._live.dropped if self._live is not None else 0

    @property
    def is_ready(self) -> bool:
        """Whether `read` returns at once, or after decoding a frame: False while a new frame of a camera is awaited.

        True where the policy is `WAIT`, under which nobody knows.
        """
        return self._policy is FramePolicy.WAIT or self._live_frames().is_ready

    def read(self) -> VideoFrame | None:
        """The next frame, BGR8; None at the end, or where another thread closes the reader meanwhile.

        Raises:
            ClosedError: the reader has been closed.
        """
        self._capture.require_open()
        if self._policy is FramePolicy.WAIT:
            return self._capture.read()
        return self._live_frames().read()

    def _live_frames(self) -> LiveFrames:
        # Two threads that ask for the first frame at once must not start two readers of one camera.
        with self._start:
            if self._live is None:
                capacity = 1 if self._policy is FramePolicy.LATEST else self._kept
                self._live = LiveFrames(self._capture.read, capacity)
            return self._live

    def __iter__(self) -> Iterator[VideoFrame]:
        while (frame := self.read()) is not None:
            yield frame
        self.close()

    def close(self) -> None:
        """Waits for the read in flight, and lets go of the file or the camera. Twice is harmless."""
        if self._live is not None:
            self._live.close()
        self._capture.close()

    def __repr__(self) -> str:
        return f"<VideoReader {self._capture.name} {self._capture.width}x{self._capture.height}>"


class _Capture:
    """An open file or camera."""

    def __init__(self, source: str | os.PathLike[str] | BinaryIO | int) -> None:
        import cv2

        copy = _copy_to_file(source) if is_stream(source) else ""
        self._remove_copy = weakref.finalize(self, _remove, copy) if copy else None
        self.name = "The stream" if copy else f"camera {source}" if isinstance(source, int) else str(source)
        self._index = 0
        self._lock = threading.Lock()
        self._native: Any = None
        try:
            self._native = _open_capture(copy or source, self.name)
        except WinMLError:
            self.close()
            raise
        self.width = int(self._native.get(cv2.CAP_PROP_FRAME_WIDTH))
        self.height = int(self._native.get(cv2.CAP_PROP_FRAME_HEIGHT))
        self.rate = float(self._native.get(cv2.CAP_PROP_FPS))
        self.count = max(0, int(self._native.get(cv2.CAP_PROP_FRAME_COUNT)))

    def require_open(self) -> None:
        """Refuses to go on once it is closed.

        Raises:
            ClosedError: it has been closed.
        """
        if self._native is None:
            raise ClosedError("The video reader has been closed.", hint="Open the video again.")

    def read(self) -> VideoFrame | None:
        """The next frame; None at the end, and once it is closed."""
        import cv2

        with self._lock:
            if self._native is None:
                return None
            there, pixels = self._native.read()
            if not there:
                return None
            time = self._native.get(cv2.CAP_PROP_POS_MSEC)
            index, self._index = self._index, self._index + 1
        frame = VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_array(pixels, BitmapPixelFormat.BGR8))
        frame.is_stable = True  # OpenCV makes an array for each
        if self.rate > 0:
            frame.duration = timedelta(seconds=1 / self.rate)
            time = max(time, 0.0) or index * 1000 / self.rate  # some backends give no time
        frame.relative_time = timedelta(milliseconds=time)
        return frame

    def close(self) -> None:
        """Lets go of the file or the camera. Twice is harmless."""
        with self._lock:
            if self._native is not None:
                self._native.release()
                self._native = None
            if self._remove_copy is not None:
                self._remove_copy()


def _copy_to_file(stream: object) -> str:
    """The path of a temporary file with what is left in a stream: OpenCV's reader of streams can end the process."""
    data = read_bytes(stream, "The video stream", PictureError)
    descriptor, path = tempfile.mkstemp(suffix=".video")
    with open(descriptor, "wb") as file:
        file.write(data)
    return path


def _remove(path: str) -> None:
    with suppress(OSError):  # Windows removes no open file
        os.unlink(path)


def _open_capture(source: object, name: str) -> Any:
    import cv2

    if isinstance(source, bool) or not isinstance(source, (str, os.PathLike, int)):
        raise InvalidArgumentError(f"A video is read from a path or a camera's number, not {source!r}.")
    if isinstance(source, int):
        if source < 0:
            raise InvalidArgumentError(f"There is no camera {source}.", hint="The first is 0.")
        return _require_opened(cv2.VideoCapture(source), name, "Is it plugged in, and free?")
    path = os.fspath(source)
    if not os.path.isfile(path):
        raise PictureNotFoundError(f"{path}: There is no such video.", hint=missing_file_hint(path))
    # Absolute, because OpenCV takes "concat:a.mp4" for a protocol.
    path = os.path.abspath(os.fsdecode(path))
    require_whole_video(path, name)
    return _require_opened(cv2.VideoCapture(path), name, "OpenCV cannot read it.")


def _require_opened(native: Any, name: str, hint: str) -> Any:
    if not native.isOpened():
        native.release()
        raise PictureError(f"{name} cannot be opened as a video.", hint=hint)
    return native


# LiveFrames: a thread that reads a live source, and drops the frames that nobody has time for.


class LiveFrames:
    """The newest frames of a source, which a thread reads as they come.

    Args:
        read: gives the next frame, or None at the end of the source.
        capacity: how many frames wait to be asked for, at most.

    Attributes:
        dropped: how many frames nobody was given.
    """

    def __init__(self, read: Callable[[], VideoFrame | None], capacity: int) -> None:
        self.dropped = 0
        self._state = _State(read, capacity)
        self._is_inherited = False
        child_process.watch_forks(self)
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

    def __init__(self, read: Callable[[], VideoFrame | None], capacity: int) -> None:
        self._read, self._capacity = read, capacity
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
            if len(self.frames) == self._capacity:
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
