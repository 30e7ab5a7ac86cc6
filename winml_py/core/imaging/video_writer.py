"""VideoWriter: pictures as the frames of a video file, which appears whole or not at all."""

from __future__ import annotations

import math
import os
import threading
import weakref
from contextlib import suppress
from numbers import Real
from typing import Any, Protocol, runtime_checkable

from ...enums import BitmapPixelFormat
from ...errors import (
    ClosedError,
    IllegalCallError,
    InvalidArgumentError,
    PictureError,
    SizeMismatchError,
    StorageAccessError,
)
from ..base.arrays import Pixels
from ..base.atomic_files import copy_mode, move_into_place, require_folder, translate_write_errors
from ..base.winrt_object import Closeable
from .bitmap import SoftwareBitmap, VideoFrame
from .video_files import CODECS


@runtime_checkable
class Framed(Protocol):
    """A value that holds a frame: an `ImageFeatureValue`."""

    @property
    def video_frame(self) -> VideoFrame:
        """The frame."""


class VideoWriter(Closeable):
    """Writes pictures as the frames of a video, with OpenCV. The video has no sound.

    The file appears whole when the writer is closed, or not at all: until then the frames are in a hidden file beside
    it. An error that ends `with`, `discard`, and dropping the writer without `close` leave no file behind. Threads may
    write at the same time.

    Args:
        path: of the file to write: .mp4, .m4v, .mov, .mkv (MPEG-4), .avi (Motion JPEG) or .webm (VP8).
        frame_rate: frames per second, such as `reader.frame_rate`.
        codec: four characters that name another codec, such as "FFV1" for a lossless .avi. The available codecs depend
            on OpenCV's build.

    Raises:
        InvalidArgumentError: no such ending, a rate that is not above 0, or a codec that is not four characters.
        StorageNotFoundError: there is no such folder.
        StorageAccessError: the path is a folder or a device.

    Example:
        >>> import os, tempfile
        >>> from winml_py import BitmapPixelFormat, VideoFrame, VideoReader, VideoWriter
        >>> path = os.path.join(tempfile.mkdtemp(), "black.avi")
        >>> with VideoWriter(path, 25) as writer:
        ...     for _ in range(3):
        ...         writer.write(VideoFrame(BitmapPixelFormat.BGR8, 64, 48))
        >>> with VideoReader(path) as reader:
        ...     len(list(reader)), reader.frame_rate
        (3, 25.0)
    """

    def __init__(self, path: str | os.PathLike[str], /, frame_rate: float, *, codec: str | None = None) -> None:
        self._path = os.fspath(path)
        rate: Any = frame_rate
        if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 < float(rate) < math.inf:
            raise InvalidArgumentError(f"The frame rate is {rate!r}.", hint="Pass frames per second, above 0.")
        self._rate = float(rate)
        self._codec = CODECS.get(os.path.splitext(self._path)[1].lower(), "") if codec is None else codec
        if codec is None and not self._codec:
            raise InvalidArgumentError(
                f"{self._path} does not have the extension of a video format that can be written.",
                hint=f"Use {', '.join(CODECS)}.",
            )
        if not isinstance(self._codec, str) or len(self._codec) != 4 or not self._codec.isascii():
            raise InvalidArgumentError(
                f"The codec is {codec!r}.", hint='Pass four characters, such as "mp4v" or "MJPG".'
            )
        require_folder(self._path)
        self._file = _HiddenFile(self._path)
        self._size = (0, 0)
        self._count = 0
        self._is_closed = False
        self._lock = threading.Lock()
        weakref.finalize(self, self._file.remove)

    @property
    def frame_count(self) -> int:
        """How many frames have been written."""
        return self._count

    def write(self, picture: VideoFrame | SoftwareBitmap | Framed, /) -> None:
        """Adds a frame, in any pixel format. The first one sets the size of the video.

        Raises:
            SizeMismatchError: its size is not that of the first frame.
            InvalidArgumentError: not a picture, or a side of the video is odd: video codecs store blocks of pixels.
            PictureError: OpenCV cannot write such a video.
        """
        pixels = _read_bgr(picture)
        height, width = pixels.shape[:2]
        with self._lock:
            if self._is_closed:
                raise ClosedError("The video writer has been closed.", hint="Create another writer for another file.")
            if self._file.native is None:
                self._open_native(width, height)
            if (width, height) != self._size:
                raise SizeMismatchError(
                    f"Frame {self._count} is {width}x{height}, but the video {self._path} is "
                    f"{self._size[0]}x{self._size[1]}.",
                    hint="Scale the frame with VideoFrame.copy_to, because all frames of a video have the same size.",
                )
            self._file.native.write(pixels)
            self._count += 1

    def _open_native(self, width: int, height: int) -> None:
        import cv2

        if width % 2 or height % 2:
            raise InvalidArgumentError(
                f"A frame of {width}x{height} cannot be written to {self._path}: the sides of a video must be even.",
                hint="Crop or scale the frames by a pixel with VideoFrame.copy_to.",
            )
        native = cv2.VideoWriter(self._file.path, cv2.VideoWriter.fourcc(*self._codec), self._rate, (width, height))
        if not native.isOpened():
            native.release()
            self._file.remove()
            raise PictureError(
                f"{self._path} cannot be written as a video of {width}x{height} at {self._rate:g} frames a second with "
                f"the codec {self._codec}.",
                hint="Omit the codec, or use one that OpenCV supports. Some allow few frame rates; .avi allows most.",
            )
        self._file.native = native
        self._size = (width, height)

    def close(self) -> None:
        """Completes the file, which replaces an existing one. A second call does nothing.

        Raises:
            IllegalCallError: no frame was written.
            StorageAccessError: the file could not be written whole, or not be put in place.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                if self._file.native is None:
                    raise IllegalCallError(f"No frame was written to {self._path}.", hint="Write at least one frame.")
                self._file.native.release()
                if not _has_frames(self._file.path, self._count):  # OpenCV does not report failed writes
                    raise StorageAccessError(
                        f"{self._path} could not be written completely.",
                        hint="Check the free disk space and the codec.",
                    )
                self._file.put_in_place()
            finally:
                self._file.remove()

    def discard(self) -> None:
        """Drops what has been written: no file appears, and an existing one stays. A second call does nothing."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._file.remove()

    def __exit__(self, *failure: object) -> None:
        if any(failure):
            self.discard()
        else:
            self.close()

    def __repr__(self) -> str:
        return f"<VideoWriter {self._path} {self._count} frames>"


class _HiddenFile:
    """The hidden file beside the target, to which frames are written: OpenCV can write only to a path."""

    def __init__(self, path: str) -> None:
        self.native: Any = None
        self._shown = path
        self._target = os.path.realpath(path)
        if os.path.exists(self._target) and not os.path.isfile(self._target):
            raise StorageAccessError(f"{path} is not an ordinary file.", hint="Pass the path of a file.")
        folder, name = os.path.split(self._target)
        stem, ending = os.path.splitext(name)
        self.path = os.path.join(folder, f".{stem}.{os.urandom(8).hex()}{os.path.splitext(path)[1] or ending}")

    def put_in_place(self) -> None:
        """Renames it to the target."""
        with translate_write_errors(self._shown):
            with open(self.path, "rb+") as file:
                os.fsync(file.fileno())  # otherwise a crash could leave a file without contents
            if os.path.exists(self._target):
                copy_mode(self._target, self.path)  # keeps the mode that a user set
            move_into_place(self.path, self._target)

    def remove(self) -> None:
        """Removes it, if it exists."""
        if self.native is not None:
            self.native.release()  # Windows does not remove open files
        with suppress(OSError):  # there is none, or a virus scanner has it open
            os.unlink(self.path)


def _has_frames(path: str, frames: int) -> bool:
    """Whether a file is a video of so many frames: by its header, or by counting where that says less."""
    import cv2

    capture = cv2.VideoCapture(path)
    try:
        frame_count = capture.get(cv2.CAP_PROP_FRAME_COUNT)
        return frame_count >= frames or sum(1 for _ in iter(capture.grab, False)) >= frames
    finally:
        capture.release()


def _read_bgr(picture: object) -> Pixels:
    frame = picture.video_frame if isinstance(picture, Framed) else picture
    bitmap = frame.software_bitmap if isinstance(frame, VideoFrame) else frame
    if not isinstance(bitmap, SoftwareBitmap):
        raise InvalidArgumentError(
            f"Expected a picture as a video frame, got {type(picture).__name__}.",
            hint="Write a VideoFrame, a SoftwareBitmap or an ImageFeatureValue. To convert an array, use from_array.",
        )
    if bitmap.bitmap_pixel_format is not BitmapPixelFormat.BGR8:
        bitmap = SoftwareBitmap.convert(bitmap, BitmapPixelFormat.BGR8)
    return bitmap.to_numpy()
