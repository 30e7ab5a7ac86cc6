"""Forked processes: what lives on a GPU does not survive a fork, for the driver's threads stay with the parent."""

from __future__ import annotations

import os

from ...errors import IllegalCallError

leaked: list[object] = []
"""What a forked process got from its parent: to let go of it would wait for the driver's threads, which are there."""


def is_forked(process: int) -> bool:
    """Whether this is another process than the one of that number."""
    return os.getpid() != process


def require_process(process: int) -> None:
    """Refuses to go on in a forked process.

    Raises:
        IllegalCallError: this is another process than the one of that number.
    """
    if is_forked(process):
        raise IllegalCallError(
            "A GPU session does not survive a fork: the driver's threads are not in this process.",
            hint='Start processes with multiprocessing.get_context("spawn"), and make the session there.',
        )
