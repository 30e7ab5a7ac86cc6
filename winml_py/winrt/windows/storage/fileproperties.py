"""Windows.Storage.FileProperties: the size of a file, and when it was changed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple


class BasicProperties(NamedTuple):
    """What the system knows of every file and folder."""

    size: int
    date_modified: datetime

    @property
    def item_date(self) -> datetime:
        """The date that says most about the item: when it was changed."""
        return self.date_modified


def basic_properties(path: Path) -> BasicProperties:
    """The size of a file, 0 for a folder, and when it was changed."""
    facts = path.stat()
    return BasicProperties(0 if path.is_dir() else facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))
