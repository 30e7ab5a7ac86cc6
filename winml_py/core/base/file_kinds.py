"""What a file is, by its first bytes: for errors about files that were passed by mistake."""

from __future__ import annotations

import os
import re
from codecs import getincrementaldecoder
from typing import NamedTuple

HEAD = 1024
"""How many bytes tell what a file is."""

_EXPORT = "Export the model from the program that made it: torch.onnx.export(model, inputs, 'model.onnx')."
_PICTURE = "Name a model's file; a picture is an input, and comes after it."


class FileKind(NamedTuple):
    """What a file is.

    Attributes:
        words: what it is, after "This is".
        remedy: what helps somebody who meant it to be an ONNX model.
        replacement: what helps somebody who meant it to be a picture; "" where nothing special does.
    """

    words: str
    remedy: str
    replacement: str = ""


ARRAY = FileKind("an array of numpy", "Name a model's file; an array is an input, and comes after it.")
_STARTS: tuple[tuple[bytes, FileKind], ...] = (
    (b"\x89PNG\r\n", FileKind("a PNG picture", _PICTURE)),
    (b"\xff\xd8\xff", FileKind("a JPEG picture", _PICTURE)),
    (b"GIF8", FileKind("a GIF picture", _PICTURE)),
    (b"II*\0", FileKind("a TIFF picture", _PICTURE)),
    (b"MM\0*", FileKind("a TIFF picture", _PICTURE)),
    (b"%PDF", FileKind("a PDF document", "Name an .onnx file.", "Save its page as a picture.")),
    (b"\x93NUMPY", ARRAY),
    (b"GGUF", FileKind("a GGUF file, a language model for llama.cpp", "Look for an ONNX export of the same model.")),
    (
        b"\x89HDF\r\n",
        FileKind("an HDF5 file, as Keras writes them", "Convert it: tf2onnx.convert.from_keras(model)."),
    ),
    (b"\x1f\x8b", FileKind("a gzip archive", "Unpack it.", "Unpack it.")),
    (b"\x28\xb5\x2f\xfd", FileKind("a Zstandard archive", "Unpack it.", "Unpack it.")),
)
_LFS = FileKind(
    "a Git LFS pointer, which stands for the file in a repository",
    "Run `git lfs pull` in its repository, or download the file itself.",
    "Run `git lfs pull` in its repository, or download the file itself.",
)
_HTML = FileKind(
    "an HTML page, as servers send for a login or an error",
    "Download the file itself: open the address in a browser, and take the download link.",
    "Download the file itself: open the address in a browser, and take the download link.",
)
FOLDER = FileKind("a folder", "Name a file in it.", "Name a file in it.")
_EMPTY = FileKind("an empty file", "Download or export it again.", "Download it again.")
_TORCH = FileKind("a PyTorch file (.pt or .pth)", _EXPORT)
_PICKLE = FileKind(
    "a pickle of Python, as PyTorch and scikit-learn write them",
    "Export the model from the program that made it: torch.onnx.export for PyTorch, skl2onnx for scikit-learn.",
)
ZIP = FileKind("a ZIP archive", "Unpack it, and name the .onnx file in it.", "Unpack it.")
_SAFETENSORS = FileKind(
    "a safetensors file, which holds weights without a graph",
    "Export the model: optimum-cli export onnx --model NAME FOLDER.",
)
_TFLITE = FileKind("a TensorFlow Lite model", "Convert it: python -m tf2onnx.convert --tflite FILE --output FILE.onnx.")
_ORT = FileKind("a model in ONNX Runtime's own format (.ort)", "Use the .onnx file that it was made from.")
_VIDEO = FileKind("a video", "Name a model's file; a video is an input, and comes after it.")
_OPENVINO = FileKind("a model of OpenVINO's own format (.xml)", "Use the .onnx file that it was made from.")
_XML = FileKind("an XML file", "Name an .onnx file.")
_JSON = FileKind("a JSON file", "Name an .onnx file.")
_TEXT = FileKind("a text file", "Name an .onnx file.")
ONNX = FileKind(
    "an ONNX model", "The file was damaged on its way; compare its size.", "Name the model first, then the inputs."
)


def kind_of_file(path: str | os.PathLike[str]) -> FileKind | None:
    """What a file is; None where nobody knows, or it cannot be read."""
    try:
        if os.path.isdir(path):
            return FOLDER
        with open(path, "rb") as file:
            return kind_of(file.read(HEAD))
    except (OSError, ValueError):  # a null byte in the name
        return None


def kind_of(head: bytes) -> FileKind | None:
    """What a file is whose first bytes these are; None where nobody knows.

    Example:
        >>> kind_of(b"version https://git-lfs.github.com/spec/v1").words
        'a Git LFS pointer, which stands for the file in a repository'
    """
    if not head:
        return _EMPTY
    started = next((kind for start, kind in _STARTS if head.startswith(start)), None)
    return started or _by_structure(head) or _by_text(head)


def _by_structure(head: bytes) -> FileKind | None:
    if head.startswith(b"PK\3\4"):
        return _TORCH if re.search(rb"/(data\.pkl|byteorder|\.format_version|constants\.pkl)", head) else ZIP
    if head[4:8] in (b"TFL3", b"ORTM"):
        return _TFLITE if head[4:8] == b"TFL3" else _ORT
    if head.startswith(b"BM") and head[6:10] == bytes(4):
        return FileKind("a BMP picture", _PICTURE)
    if head.startswith(b"RIFF"):
        return {b"WEBP": FileKind("a WebP picture", _PICTURE), b"AVI ": _VIDEO}.get(head[8:12])
    if head[4:8] == b"ftyp":
        is_picture = head[8:12] in (b"avif", b"avis", b"heic", b"heix", b"mif1", b"msf1")
        return FileKind("a HEIC or AVIF picture", _PICTURE) if is_picture else _VIDEO
    if re.match(rb"\x80[\x02-\x05][\x95\x8a\x00-\x7f]", head):
        return _PICKLE
    if len(head) > 9 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") < 1 << 28:
        return _SAFETENSORS
    return ONNX if re.match(rb"\x08[\x01-\x20][\x12\x1a\x22\x2a\x32\x3a\x42]", head) else None


def _by_text(head: bytes) -> FileKind | None:
    """A kind of text, where the bytes are one; the last character may be cut."""
    try:
        text = getincrementaldecoder("utf-8")().decode(head).lstrip("\ufeff \t\r\n")
    except UnicodeDecodeError:
        return None
    if not text or not all(letter.isprintable() or letter.isspace() for letter in text):
        return None
    if text.startswith("version https://git-lfs"):
        return _LFS
    if re.match(r"(?i)<!doctype html|<html|<head|<!--.*?<html", text):
        return _HTML
    if text.startswith("<"):
        return _OPENVINO if "<net" in text else _XML
    return _JSON if text[0] in "{[" else _TEXT


def find_similar_file(path: str | os.PathLike[str]) -> str:
    """The file in a missing file's folder whose name is most like it, with the same ending; "" where none is alike.

    The endings are equal, and so are left out of the comparison: "modle.onnx" is much like "dv.onnx" with them.
    """
    from difflib import get_close_matches  # here, because only errors need it

    folder, name = os.path.split(os.fspath(path))
    stem, ending = os.path.splitext(name)
    try:
        names = os.listdir(folder or os.curdir)
    except (OSError, ValueError):
        return ""
    stems = {os.path.splitext(each)[0].casefold(): each for each in names if each.lower().endswith(ending.lower())}
    near = get_close_matches(stem.casefold(), stems, 1)
    return os.path.join(folder, stems[near[0]]) if near else ""


def missing_file_hint(path: str | os.PathLike[str]) -> str:
    """The hint of an error about a file that is not there."""
    similar = find_similar_file(path)
    return f"Did you mean {similar}?" if similar else "Check the working directory."
