"""Folders that models are published in: one file a layout, and the table of them in `layouts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ....errors import WinMLError


class Published(NamedTuple):
    """What a folder states of its model.

    Attributes:
        folder: its path.
        parts: the value of each part.
        sources: the file that each part is from, by its path in the folder, and "model".
        refusal: why a file does not state the contract; None if none was tried in vain.
    """

    folder: str
    parts: Mapping[str, Any]
    sources: Mapping[str, str]
    refusal: WinMLError | None = None


NOTHING = Published("", {}, {})
"""Of a model that is not from a folder."""
