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
from ...errors import ClosedError, InvalidArgumentError, PictureError, PictureNotFoundError, WinMLError
from ..base.arguments import (
    is_stream,
    read_bytes,
    refuse_address,
    require_member,
    require_whole_number,
    suggest_path,
)
from ..base.winrt_object import Closeable
from .bitmap import SoftwareBitmap, VideoFrame
from .video_files import require_whole_video


class VideoReader(Closeable):
    """Reads a video frame by frame with OpenCV. Sound is not read.

    Iterating gives each frame once, with its time in `relative_time`; each frame has its own memory. Threads may read
    at the same time. The reader is closed by `close`, by `with`, or at the end of the video.

    Args:
        source: the path to a video file; an open binary file, which is copied to a temporary file until the reader is
            closed; or the number of a camera, 0 being the first.
        policy: what happens to a camera's frames while the program is busy. With `DROP_OLDEST` and `LATEST` a thread
            reads from the first request for a frame on, and a frame after dropped ones has `is_discontinuous`. Files
            always wait, whatever the policy.
        kept: with `DROP_OLDEST`, the most frames that wait to be read.

    Raises:
        PictureNotFoundError: there is no such file.
        InvalidArgumentError: neither a path nor the number of a camera, or no such policy.
        PictureError: it is not a readable video, or is cut off; it is a list or a pattern of other files; or there is
            no such camera.

    Example:
        >>> from winml_py import VideoReader
        >>> try:
        ...     VideoReader("nowhere.mp4")
        ... except FileNotFoundError as error:
        ...     print(error)
        nowhere.mp4: The video does not exist. Check the working directory.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | BinaryIO | int,
        /,
        *,
        policy: FramePolicy = FramePolicy.WAIT,
        kept: int = 8,
    ) -> None:
        policy = require_member(FramePolicy, policy, "The reader's policy")
        self._policy = policy if isinstance(source, int) else FramePolicy.WAIT
        self._kept = require_whole_number(kept, "The number of frames to keep", 1)
        self._capture = _Capture(source)
        self._live: _LiveFrames | None = None
        self._start = threading.Lock()

    @property
    def pixel_width(self) -> int:
        """The width of its frames, in pixels."""
        return self._capture.width

    @property
    def pixel_height(self) -> int:
        """The height of its frames, in pixels."""
        return self._capture.height

    @property
    def frame_rate(self) -> float:
        """Frames per second, or 0 if the source does not state them."""
        return self._capture.rate

    @property
    def frame_count(self) -> int:
        """The number of frames that the file's header states, which may be wrong; 0 for a camera."""
        return self._capture.count

    @property
    def policy(self) -> FramePolicy:
        """What happens to frames while the program is busy; always `WAIT` for a file."""
        return self._policy

    @property
    def dropped(self) -> int:
        """How many frames were dropped, up to the frame that was read last."""
        return self._live.dropped if self._live is not None else 0

    @property
    def is_ready(self) -> bool:
        """False while waiting for a camera's next frame; always True where the policy is `WAIT`."""
        if self._policy is FramePolicy.WAIT:
            return True
        live = self._start_live_frames()
        return bool(live.frames) or live.is_ended

    def read(self) -> VideoFrame | None:
        """The next frame, BGR8; None at the end, or if another thread closes the reader meanwhile."""
        self._capture.require_open()
        if self._policy is FramePolicy.WAIT:
            return self._capture.read()
        return self._start_live_frames().take()

    def _start_live_frames(self) -> _LiveFrames:
        # Two threads that request the first frame at once must not start two readers of one camera.
        with self._start:
            if self._live is None:
                capacity = 1 if self._policy is FramePolicy.LATEST else self._kept
                self._live = _LiveFrames(self._capture.read, capacity)
                weakref.finalize(self, self._live.stop)
            return self._live

    def __iter__(self) -> Iterator[VideoFrame]:
        while (frame := self.read()) is not None:
            yield frame
        self.close()

    def close(self) -> None:
        """Waits for the current read, and releases the file or the camera. A second call does nothing."""
        if self._live is not None:
            self._live.stop()
        self._capture.close()

    def __repr__(self) -> str:
        return f"<VideoReader {self._capture.name} {self._capture.width}x{self._capture.height}>"


def _remove(path: str) -> None:
    with suppress(OSError):  # Windows does not remove open files
        os.unlink(path)


class _Capture:
    """An open file or camera."""

    def __init__(self, source: str | os.PathLike[str] | BinaryIO | int) -> None:
        import cv2

        copy = ""
        if is_stream(source):  # a copy, because OpenCV's reader of streams can end the process
            data = read_bytes(source, "The video stream", PictureError)
            with tempfile.NamedTemporaryFile(suffix=".video", delete=False) as file:
                file.write(data)
            copy = file.name
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
        """Raises ClosedError if it has been closed."""
        if self._native is None:
            raise ClosedError("The video reader has been closed.", hint="Open the video again.")

    def read(self) -> VideoFrame | None:
        """The next frame; None at the end, and after `close`."""
        import cv2

        with self._lock:
            if self._native is None:
                return None
            has_frame, pixels = self._native.read()
            if not has_frame:
                return None
            time = self._native.get(cv2.CAP_PROP_POS_MSEC)
            index = self._index
            self._index += 1
        frame = VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_array(pixels, BitmapPixelFormat.BGR8))
        frame.is_stable = True  # nothing overwrites it: OpenCV makes a new array for each frame
        if self.rate > 0:
            frame.duration = timedelta(seconds=1 / self.rate)
            time = max(time, 0.0) or index * 1000 / self.rate  # some backends report no time
        frame.relative_time = timedelta(milliseconds=time)
        return frame

    def close(self) -> None:
        """Releases the file or the camera. A second call does nothing."""
        with self._lock:
            if self._native is not None:
                self._native.release()
                self._native = None
            if self._remove_copy is not None:
                self._remove_copy()


def _open_capture(source: object, name: str) -> Any:
    import cv2

    if isinstance(source, bool) or not isinstance(source, (str, os.PathLike, int)):
        raise InvalidArgumentError(f"Expected a path or a camera number, got {source!r}.")
    if isinstance(source, int):
        if source < 0:
            raise InvalidArgumentError(f"Camera {source} does not exist.", hint="For the first camera, pass 0.")
        native, hint = cv2.VideoCapture(source), "Check that the camera is connected and not in use."
    else:
        refuse_address(source)
        if os.path.exists(source) and not os.path.isfile(source):
            raise PictureError(f"{name} cannot be opened as a video: it is not a file.", hint="Pass a video file.")
        if not os.path.isfile(source):
            raise PictureNotFoundError(f"{os.fspath(source)}: The video does not exist.", hint=suggest_path(source))
        path = os.path.abspath(os.fsdecode(source))  # absolute, because OpenCV takes "concat:a.mp4" for a protocol
        require_whole_video(path, name)
        native, hint = cv2.VideoCapture(path), "Convert it to a format that OpenCV can read."
    if not native.isOpened():
        native.release()
        raise PictureError(f"{name} cannot be opened as a video.", hint=hint)
    return native


class _LiveFrames:
    """The newest frames of a live source, which a thread reads as they arrive.

    The thread refers to this, not to the reader, so that an unused reader is collected.
    """

    def __init__(self, read: Callable[[], VideoFrame | None], capacity: int) -> None:
        self._read = read
        self.frames: deque[VideoFrame] = deque()
        self.dropped = 0
        self.is_ended = False
        self._capacity, self._dropped = capacity, 0
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="winml-py camera", daemon=True).start()

    def _run(self) -> None:
        try:
            while not self.is_ended and (frame := self._read()) is not None:
                with self._changed:
                    if len(self.frames) == self._capacity:
                        self.frames.popleft()
                        self._dropped += 1
                    self.frames.append(frame)
                    self._changed.notify()
        except Exception as failure:  # the next read raises it
            self._failure = failure
        self.stop()

    def take(self) -> VideoFrame | None:
        """The oldest frame that is kept; waits for one. None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self.frames or self.is_ended)
            if self.frames:
                frame = self.frames.popleft()
                frame.is_discontinuous = self._dropped > 0
                self.dropped += self._dropped
                self._dropped = 0
                return frame
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return None

    def stop(self) -> None:
        """Ends the thread after its current frame, and wakes every caller that waits for a frame."""
        with self._changed:
            self.is_ended = True
            self._changed.notify_all()
