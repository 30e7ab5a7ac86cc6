"""VideoReader: the frames of a video file or a camera."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from ..base.closeable import Closeable
from ..enums import BitmapPixelFormat
from ..errors import ClosedError, InvalidArgumentError, PictureError, PictureNotFoundError
from .bitmap import SoftwareBitmap
from .frame import VideoFrame


class VideoReader(Closeable):
    """Reads a video frame by frame, by OpenCV.

    Iterating gives each frame once, with its time in `relative_time`; each frame has its own memory. Threads may read
    at the same time. The reader is closed by `close`, by `with`, or at the end of the video.

    Args:
        source: the path of a video file, or the number of a camera, 0 being the first.

    Raises:
        PictureNotFoundError: there is no such file.
        InvalidArgumentError: neither a path nor the number of a camera.
        PictureError: it is no video that can be read, or there is no such camera.

    Example:
        >>> from winml_py import VideoReader
        >>> try:
        ...     VideoReader("nowhere.mp4")
        ... except FileNotFoundError as error:
        ...     print(error)
        There is no video nowhere.mp4. Check the working directory.
    """

    def __init__(self, source: str | os.PathLike[str] | int, /) -> None:
        import cv2

        if isinstance(source, bool) or not isinstance(source, (str, os.PathLike, int)):
            raise InvalidArgumentError(f"A video is read from a path or a camera's number, not {source!r}.")
        if isinstance(source, int) and source < 0:
            raise InvalidArgumentError(f"There is no camera {source}.", hint="The first is 0.")
        is_camera = isinstance(source, int)
        opened = source if isinstance(source, int) else os.fspath(source)
        self._name = f"camera {source}" if is_camera else str(opened)
        if not is_camera and not os.path.isfile(opened):
            raise PictureNotFoundError(f"There is no video {self._name}.", hint="Check the working directory.")
        self._capture: Any = cv2.VideoCapture(opened)
        self._index = 0
        self._lock = threading.Lock()
        if not self._capture.isOpened():
            self.close()
            hint = "Is it plugged in, and free?" if is_camera else "OpenCV cannot read it."
            raise PictureError(f"{self._name} cannot be opened as a video.", hint=hint)
        self._width = int(self._capture.get(cv2.CAP_PROP_FRAME_WIDTH))
        self._height = int(self._capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
        self._rate = float(self._capture.get(cv2.CAP_PROP_FPS))
        self._count = max(0, int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT)))

    @property
    def pixel_width(self) -> int:
        """Pixels in a row."""
        return self._width

    @property
    def pixel_height(self) -> int:
        """Rows."""
        return self._height

    @property
    def frame_rate(self) -> float:
        """Frames a second, or 0 where the source does not say."""
        return self._rate

    @property
    def frame_count(self) -> int:
        """The number of frames that the file's header states, which may be wrong; 0 for a camera."""
        return self._count

    def read(self) -> VideoFrame | None:
        """The next frame, BGR8; None at the end.

        Raises:
            ClosedError: the reader has been closed.
        """
        import cv2

        with self._lock:
            if self._capture is None:
                raise ClosedError("The video reader has been closed.", hint="Open the video again.")
            there, pixels = self._capture.read()
            if not there:
                return None
            time = self._capture.get(cv2.CAP_PROP_POS_MSEC)
            index, self._index = self._index, self._index + 1
        frame = VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_array(pixels, BitmapPixelFormat.BGR8))
        if self._rate > 0:
            frame.duration = timedelta(seconds=1 / self._rate)
            time = max(time, 0.0) or index * 1000 / self._rate  # some backends give no time
        frame.relative_time = timedelta(milliseconds=time)
        return frame

    def __iter__(self) -> Iterator[VideoFrame]:
        while (frame := self.read()) is not None:
            yield frame
        self.close()

    def close(self) -> None:
        """Lets go of the file or the camera. Twice is harmless."""
        with self._lock:
            if self._capture is not None:
                self._capture.release()
                self._capture = None

    def __repr__(self) -> str:
        return f"<VideoReader {self._name} {self._width}x{self._height}>"
