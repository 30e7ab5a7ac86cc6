"""FileIO and PathIO: whole files at once, as text or as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ....core.base.async_operation import AsyncOperation
from ....core.base.atomic_files import written_whole
from ....core.base.buffers import Buffer
from ..foundation import Uri
from .data_streams import UnicodeEncoding, decoded, encoded
from .files import absolute_path, application_path, existing, start
from .items import StorageFile
from .random_access import given_bytes

P = ParamSpec("P")
T = TypeVar("T")

LINE_END = "\r\n"
"""What Windows writes after each line, on every system: the same program makes the same file."""


class FileIO:
    """Whole files at once, as text or as bytes. Without an encoding, text is UTF-8."""

    @staticmethod
    def read_text_async(file: StorageFile, encoding: UnicodeEncoding = UnicodeEncoding.UTF8, /) -> AsyncOperation[str]:
        """The file's text."""
        return start(lambda: _text(file, encoding))

    @staticmethod
    def read_lines_async(
        file: StorageFile, encoding: UnicodeEncoding = UnicodeEncoding.UTF8, /
    ) -> AsyncOperation[list[str]]:
        """The lines of the file's text, without their ends."""
        return start(lambda: _text(file, encoding).splitlines())

    @staticmethod
    def read_buffer_async(file: StorageFile, /) -> AsyncOperation[Buffer]:
        """The file's bytes."""
        return start(lambda: Buffer.of(file.read()))

    @staticmethod
    def write_text_async(
        file: StorageFile, contents: str, encoding: UnicodeEncoding = UnicodeEncoding.UTF8, /
    ) -> AsyncOperation[None]:
        """Replaces the contents of the file by a text."""
        return start(lambda: _write(file, encoded(contents, encoding)))

    @staticmethod
    def write_lines_async(
        file: StorageFile, lines: Iterable[str], encoding: UnicodeEncoding = UnicodeEncoding.UTF8, /
    ) -> AsyncOperation[None]:
        """Replaces the contents of the file by lines, each with an end."""
        return start(lambda: _write(file, encoded(_joined(lines), encoding)))

    @staticmethod
    def write_bytes_async(file: StorageFile, contents: Any, /) -> AsyncOperation[None]:
        """Replaces the contents of the file by bytes; of a `Buffer`, those in use."""
        return start(lambda: _write(file, bytes(given_bytes(contents))))

    @staticmethod
    def append_text_async(
        file: StorageFile, contents: str, encoding: UnicodeEncoding = UnicodeEncoding.UTF8, /
    ) -> AsyncOperation[None]:
        """Adds a text at the file's end."""
        return start(lambda: _append(file, encoded(contents, encoding)))

    @staticmethod
    def append_lines_async(
        file: StorageFile, lines: Iterable[str], encoding: UnicodeEncoding = UnicodeEncoding.UTF8, /
    ) -> AsyncOperation[None]:
        """Adds lines at the file's end, each with an end."""
        return start(lambda: _append(file, encoded(_joined(lines), encoding)))

    write_buffer_async = write_bytes_async
    read_text_with_encoding_async = read_text_async  # pywinrt 3's names
    read_lines_with_encoding_async = read_lines_async
    write_text_with_encoding_async = write_text_async
    write_lines_with_encoding_async = write_lines_async
    append_text_with_encoding_async = append_text_async
    append_lines_with_encoding_async = append_lines_async


def _by_path(
    work: Callable[Concatenate[StorageFile, P], AsyncOperation[T]],
) -> Callable[Concatenate[str | os.PathLike[str], P], AsyncOperation[T]]:
    def by_path(path: str | os.PathLike[str], /, *arguments: P.args, **named: P.kwargs) -> AsyncOperation[T]:
        is_uri = isinstance(path, str) and path.lower().startswith("ms-appx:")
        found = application_path(Uri(str(path))) if is_uri else absolute_path(path)
        return work(StorageFile(found), *arguments, **named)

    return by_path


class PathIO:
    """What `FileIO` does, for the path of a file that exists, or an `ms-appx:///` URI of one.

    Example:
        >>> from winml_py.winrt.windows.storage import PathIO
        >>> PathIO.read_lines_async("models/digits.labels.txt").get()[7]
        'seven'
    """

    read_text_async = staticmethod(_by_path(FileIO.read_text_async))
    read_lines_async = staticmethod(_by_path(FileIO.read_lines_async))
    read_buffer_async = staticmethod(_by_path(FileIO.read_buffer_async))
    write_text_async = staticmethod(_by_path(FileIO.write_text_async))
    write_lines_async = staticmethod(_by_path(FileIO.write_lines_async))
    write_bytes_async = staticmethod(_by_path(FileIO.write_bytes_async))
    append_text_async = staticmethod(_by_path(FileIO.append_text_async))
    append_lines_async = staticmethod(_by_path(FileIO.append_lines_async))
    write_buffer_async = write_bytes_async
    read_text_with_encoding_async = read_text_async  # pywinrt 3's names
    read_lines_with_encoding_async = read_lines_async
    write_text_with_encoding_async = write_text_async
    write_lines_with_encoding_async = write_lines_async
    append_text_with_encoding_async = append_text_async
    append_lines_with_encoding_async = append_lines_async


def _text(file: StorageFile, encoding: UnicodeEncoding) -> str:
    text = decoded(file.read(), encoding, f"{file.path} is not text in")
    return text.removeprefix("\ufeff")  # programs on Windows often put a mark before their texts


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}{LINE_END}" for line in lines)


def _write(file: StorageFile, data: bytes) -> None:
    with written_whole(str(existing(absolute_path(file.path), "file"))) as target:
        target.write(data)


def _append(file: StorageFile, data: bytes) -> None:
    with existing(absolute_path(file.path), "file").open("ab") as target:
        target.write(data)
