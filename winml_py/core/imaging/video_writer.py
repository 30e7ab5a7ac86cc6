"""VideoWriter: pictures as the frames of a video file, which appears whole or not at all."""

from __future__ import annotations

import math
import os
import re
import threading
import weakref
from contextlib import suppress
from numbers import Real
from typing import Any, BinaryIO, Protocol, runtime_checkable

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
from ..base.atomic_files import copy_mode, move_into_place, require_folder, written_to
from ..base.winrt_object import Closeable
from .bitmap import SoftwareBitmap, VideoFrame


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
            raise InvalidArgumentError(f"The frame rate is {rate!r}.", hint="Expected frames per second, above 0.")
        self._rate = float(rate)
        self._codec = CODECS.get(os.path.splitext(self._path)[1].lower(), "") if codec is None else codec
        if codec is None and not self._codec:
            raise InvalidArgumentError(
                f"{self._path} does not end like a video file that can be written.", hint=f"Use {', '.join(CODECS)}."
            )
        if not isinstance(self._codec, str) or len(self._codec) != 4 or not self._codec.isascii():
            raise InvalidArgumentError(
                f"The codec is {codec!r}.", hint='Expected four characters, such as "mp4v" or "MJPG".'
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
                raise ClosedError("The video writer has been closed.", hint="Make another for another file.")
            if self._file.native is None:
                self._open_native(width, height)
            if (width, height) != self._size:
                raise SizeMismatchError(
                    f"Frame {self._count} is {width}x{height}, but the video {self._path} is "
                    f"{self._size[0]}x{self._size[1]}.",
                    hint="All frames of a video have one size: scale it with VideoFrame.copy_to.",
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
                hint="Leave the codec out, or name one that OpenCV has; some codecs take few rates, .avi takes most.",
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
                    raise IllegalCallError(f"No frame was written to {self._path}.", hint="A video has at least one.")
                self._file.native.release()
                if not _has_frames(self._file.path, self._count):  # OpenCV does not report failed writes
                    raise StorageAccessError(
                        f"{self._path} could not be written whole.",
                        hint="Is there room for it, and does the codec fit?",
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
            raise StorageAccessError(f"{path} is not an ordinary file.", hint="Name a file.")
        folder, name = os.path.split(self._target)
        stem, ending = os.path.splitext(name)
        self.path = os.path.join(folder, f".{stem}.{os.urandom(8).hex()}{os.path.splitext(path)[1] or ending}")

    def put_in_place(self) -> None:
        """Renames it to the target."""
        with written_to(self._shown):
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
            hint="Write a VideoFrame, a SoftwareBitmap or an ImageFeatureValue; from_array makes one from an array.",
        )
    if bitmap.bitmap_pixel_format is not BitmapPixelFormat.BGR8:
        bitmap = SoftwareBitmap.convert(bitmap, BitmapPixelFormat.BGR8)
    return bitmap.to_numpy()


# Video files: how their endings and their first bytes identify them, and which ones are read.


CODECS = {
    ".avi": "MJPG",
    ".m4v": "mp4v",
    ".mkv": "mp4v",
    ".mov": "mp4v",
    ".mp4": "mp4v",
    ".webm": "VP80",
}
"""The endings of videos that are written, each with a codec that OpenCV's packages include on every system."""

ENDINGS = (*CODECS, ".3gp", ".flv", ".mpeg", ".mpg", ".mts", ".ogv", ".wmv")
"""The endings of videos that are read."""

HEAD = 16
"""How many bytes identify a video."""

_PICTURE_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"mif1", b"msf1")
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_STARTS = (
    _EBML,  # Matroska and WebM
    b"\x00\x00\x01\xba",  # MPEG
    b"\x00\x00\x01\xb3",
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",  # ASF: .wmv
    b"FLV\x01",
    b"OggS",
)


def is_video(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a video, by its ending or its first bytes; False for one that cannot be opened."""
    if os.fspath(path).lower().endswith(ENDINGS):
        return True
    try:
        with open(path, "rb") as file:
            return is_video_content(file.read(HEAD))
    except OSError:
        return False


def is_video_content(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a video."""
    if head[4:8] in (b"ftyp", b"moov", b"mdat"):  # MP4 and QuickTime; AVIF and HEIC pictures begin alike
        return head[8:12] not in _PICTURE_BRANDS
    return head.startswith(_STARTS) or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")


_BOXES = (b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"sidx", b"free", b"skip", b"wide", b"uuid")
"""The boxes that an MP4 or QuickTime file begins with, or has side by side."""

_RARE_STARTS = (b"GIF8", b"YUV4MPEG2 ", b"DKIF", b"\x06\x0e\x2b\x34", b"\x00\x00\x00\x01")
"""Videos that are read, but not recognised: GIF, Y4M, IVF, MXF, H.264 and H.265 without a container."""

_TWO_PACKETS = 200
"""How many bytes identify MPEG-TS, whose packets all begin alike."""


def require_whole_video(path: str, name: str) -> None:
    """Refuses a file that names other files, which OpenCV would read, and a video that is cut off.

    Raises:
        PictureError: it does not begin like a video, its name is a pattern, or it ends before its stated end.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_TWO_PACKETS)
            size = file.seek(0, os.SEEK_END)
            stated = _read_stated_size(file, size)
    except OSError as error:
        raise PictureError(f"{name} cannot be opened as a video: {error.strerror or error}.") from error
    # Instead of a file named f%03d.png, OpenCV reads f000.png and those that follow, regardless of its contents.
    is_pattern = re.search(r"[*?{]|%(\d*d|\[)", os.path.basename(path)) and not path.lower().endswith(ENDINGS)
    if is_pattern or not _is_video_start(head):
        reason = "its name is a pattern" if is_pattern else "it does not begin like one"
        raise PictureError(
            f"{name} cannot be opened as a video: {reason}.",
            hint="Name a video itself: lists, playlists and patterns of other files are not read.",
        )
    if stated > size:
        raise PictureError(
            f"{name} is cut off: the video has {size:,} bytes, but states {stated:,}.",
            hint="Copy or download it again; ffmpeg -i FILE -c copy NEW.mkv keeps what is there.",
        )


def _is_video_start(head: bytes) -> bool:
    # Each packet of MPEG-TS begins with G, and has 188 bytes; in some files, a time of 4 bytes comes before it.
    is_transport_stream = b"G" in (head[:1], head[4:5]) and b"G" in (head[188:189], head[196:197])
    return is_transport_stream or is_video_content(head) or head[4:8] in _BOXES or head.startswith(_RARE_STARTS)


def _read_stated_size(file: BinaryIO, size: int) -> int:
    """The end of the last of a file's outermost parts that states its length, possibly beyond the end of the file."""
    end = 0
    while end < size:
        file.seek(end)
        if not (length := _read_part_length(file.read(HEAD))):
            break
        end += length
    return end


def _read_part_length(head: bytes) -> int:
    """Bytes of the chunk of RIFF, the box of MP4 or the element of Matroska that begins so; 0 where unknown."""
    if head.startswith(b"RIFF"):
        length = int.from_bytes(head[4:8], "little")
        return 8 + length if length < 0xFFFFFFFF else 0  # the writer could not go back and set it
    if head[4:8] in _BOXES:
        length = int.from_bytes(head[:4], "big")
        return int.from_bytes(head[8:16], "big") if length == 1 else length
    if head.startswith((_EBML, _SEGMENT)) and len(head) == HEAD:
        # The length follows the four bytes of the name. Its leading zero bits say how many bytes it has; seven bits of
        # each are the number, and all ones mean that it is unknown.
        width = 9 - head[4].bit_length()
        largest = (1 << 7 * width) - 1
        length = int.from_bytes(head[4 : 4 + width], "big") & largest
        return 4 + width + length if length != largest else 0
    return 0
