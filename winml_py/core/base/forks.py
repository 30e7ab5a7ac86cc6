"""Forks: the child is told what of its parent's it cannot use. Threads, and the locks that they hold, stay behind."""

from __future__ import annotations

import os
import weakref
from functools import cache
from typing import Protocol


class Inherited(Protocol):
    """What is of no use, or must begin anew, in a forked process."""

    def in_child(self) -> None:
        """Called in the child, before anything else runs there. Waits for no lock: nobody might release it."""


_watched: weakref.WeakSet[Inherited] = weakref.WeakSet()


def watch(thing: Inherited) -> None:
    """Has a thing told of every fork as long as it lives. Costs nothing where it is used."""
    _register()
    _watched.add(thing)


def keep_forever(thing: object) -> None:
    """Keeps a thing until the process is gone, also through the interpreter's end, where modules are emptied."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@cache
def _register() -> None:
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=_tell)


def _tell() -> None:
    for thing in list(_watched):
        thing.in_child()
