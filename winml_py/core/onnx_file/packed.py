"""A model file as it is named to another process, which opens it by its path and must find the same contents there."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from typing import NamedTuple

from ...errors import CorruptModelError, ModelNotFoundError
from .header import Header
from .source import BytesSource, FileSource, FileStamp, ModelSource


class PackedFile(NamedTuple):
    """A model file, and what it held.

    Attributes:
        path: of the model file.
        stamps: what told it, and the files beside it that hold weights, from others. The same stamps mean the same
            contents, without another look at them.
        digest: of the contents of all these files, which may have other stamps on another machine.
    """

    path: str
    stamps: tuple[FileStamp, ...]
    digest: str

    def open(self) -> tuple[FileSource, Header]:
        """The file, and its header.

        Raises:
            ModelNotFoundError: it is not there.
            CorruptModelError: it holds something else.
        """
        try:
            source, header = FileSource.open(self.path)
        except ModelNotFoundError as error:
            raise ModelNotFoundError(
                f"The model was pickled by its path, and {self.path} cannot be opened in this process.",
                hint="Put the file there on every machine, or load the model from its bytes before it is pickled.",
            ) from error
        if _packed(source) != self and _packed(source).digest != self.digest:
            raise CorruptModelError(
                f"The model file {self.path}, or a file with its weights, is not what it was when the model was "
                "pickled.",
                hint="Pickle the model again, and put the same files on every machine.",
            )
        return source, header


def packed(source: ModelSource) -> PackedFile | BytesSource:
    """What another process opens the same model with: the path and a digest of the contents, or the bytes.

    Raises:
        CorruptModelError: the file has changed since the model was loaded.
    """
    return source if isinstance(source, BytesSource) else _packed(source)


def reopened(source: PackedFile | BytesSource) -> tuple[ModelSource, Header]:
    """The model that `packed` gave, and its header; raises as `PackedFile.open` does."""
    return BytesSource.open(source.data) if isinstance(source, BytesSource) else source.open()


def _packed(source: FileSource) -> PackedFile:
    stamps = source.data_stamps()
    return PackedFile(source.path, stamps, _digest(source.folder, stamps))


@lru_cache(16)
def _digest(folder: str, stamps: tuple[FileStamp, ...]) -> str:
    """Of the contents of all the files. Read once for each state of them."""
    whole = hashlib.blake2b(digest_size=20)
    for stamp in stamps:
        with open(os.path.join(folder, stamp.name), "rb") as file:
            whole.update(hashlib.file_digest(file, "blake2b").digest())
    return whole.hexdigest()
