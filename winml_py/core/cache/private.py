"""Folders that only their owner can change: what others could have written is not believed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make(folder: Path) -> None:
    """Makes a folder, and the parents that are missing, for this user alone, whatever the umask.

    Raises:
        OSError: the system refuses.
    """
    if folder.is_dir():
        return
    make(folder.parent)
    try:
        folder.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if not folder.is_dir():  # else another process was faster
            raise
    else:
        folder.chmod(FOLDER_MODE)


def objection(folder: Path) -> str:
    """Why a folder may hold what others have written, or "".

    Where files have no modes, as on Windows, the user's folders are private by their place.

    Raises:
        OSError: there is none, or it cannot be looked at.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not hasattr(os, "geteuid"):
        return ""
    if status.st_uid != os.geteuid():
        return f"it belongs to user {status.st_uid}, and this process runs as user {os.geteuid()}"
    if status.st_mode & _OTHERS_WRITE:
        return "others can write to it; chmod go-w takes that from them"
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"anybody can rename what is in {parent}; chmod o-w, or chmod +t, prevents that"
    return ""
