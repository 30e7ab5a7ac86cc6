"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def written_whole(path: str) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path`, which takes its place when the block ends without an error.

    Example:
        >>> import os, tempfile
        >>> target = os.path.join(tempfile.mkdtemp(), "answer.txt")
        >>> with written_whole(target) as file:
        ...     _ = file.write(b"42")
        >>> os.listdir(os.path.dirname(target))
        ['answer.txt']
    """
    import tempfile

    folder, file_name = os.path.split(os.path.abspath(path))
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{file_name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    # Python can only read the mask by setting it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
