"""The library's log."""

from __future__ import annotations

import logging

from .shown_text import shown


def _spell_out(record: logging.LogRecord) -> bool:
    """Takes from a record what a terminal would obey, wherever a handler sends it."""
    record.msg, record.args = shown(record.getMessage()), None
    return True


logger = logging.getLogger("winml_py")
logger.addFilter(_spell_out)
