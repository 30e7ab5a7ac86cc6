"""Video files: how they are told from others, by their endings and by their first bytes."""

from __future__ import annotations

import os

CODECS = {
    ".avi": "MJPG",
    ".m4v": "mp4v",
    ".mkv": "mp4v",
    ".mov": "mp4v",
    ".mp4": "mp4v",
    ".webm": "VP80",
}
"""The endings of videos that are written, each with a codec that OpenCV's own packages bring on every system."""

ENDINGS = (*CODECS, ".3gp", ".flv", ".mpeg", ".mpg", ".mts", ".ogv", ".wmv")
"""The endings of videos that are read."""

HEAD = 16
"""How many bytes tell a video from other files."""

_PICTURE_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"mif1", b"msf1")
_STARTS = (
    b"\x1a\x45\xdf\xa3",  # Matroska and WebM
    b"\x00\x00\x01\xba",  # MPEG
    b"\x00\x00\x01\xb3",
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",  # ASF: .wmv
    b"FLV\x01",
    b"OggS",
)


def is_video(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a video, by its ending or its first bytes. One that cannot be opened is none."""
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
