"""Video files: how their endings and their first bytes identify them, and which ones are read."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

from ...errors import PictureError
from ..base.arguments import is_address
from ..base.messages import require_no_pointer

ENDINGS = (*(".3gp", ".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".ogv", ".webm", ".wmv"),)
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
    """Whether a file is a video, by its ending or its first bytes; False for one that cannot be opened.

    The first bytes of a pipe cannot be read twice, so it is none. Neither is a URL.
    """
    if is_address(path):
        return False
    if os.fspath(path).lower().endswith(ENDINGS):
        return True
    if not os.path.isfile(path):
        return False
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
    require_no_pointer(head, name, "a video", PictureError)
    # Instead of a file named f%03d.png, OpenCV reads f000.png and those that follow, regardless of its contents.
    is_pattern = re.search(r"[*?{]|%(\d*d|\[)", os.path.basename(path)) and not path.lower().endswith(ENDINGS)
    if is_pattern or not _is_video_start(head):
        reason = "its name is a pattern" if is_pattern else "its first bytes are not those of a video"
        raise PictureError(
            f"{name} cannot be opened as a video: {reason}.",
            hint="Pass a single video file. Lists, playlists and patterns of other files are not supported.",
        )
    if stated > size:
        raise PictureError(
            f"{name} is cut off: the video has {size:,} bytes, but declares {stated:,}.",
            hint="Copy or download it again. To keep what exists, run ffmpeg -i FILE -c copy NEW.mkv.",
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
