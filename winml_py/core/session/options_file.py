"""The file of session options: a dict of settings in JSON, with notes beside it."""

from __future__ import annotations

import json
import os
from typing import IO, Any

from ...errors import InvalidArgumentError, StorageNotFoundError
from ..base.atomic_files import require_folder, write_whole
from ..base.streams import name_of, opened_text

SCHEMA = 1
KIND = "session-options"


def write(path: str | os.PathLike[str], options: dict[str, Any], **notes: Any) -> None:
    """Writes settings, and notes beside them, to a file, whole or not at all."""
    require_folder(path)
    facts = {"schema_version": SCHEMA, "kind": KIND, "options": options, **notes}
    write_whole(path, (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode())


def read(source: str | os.PathLike[str] | IO[Any]) -> dict[str, Any]:
    """The settings in a file, or in an open one.

    Raises:
        StorageNotFoundError: there is no such file.
        InvalidArgumentError: it holds something else.
    """
    try:
        with opened_text(source) as file:
            facts = json.load(file)
        if facts.get("kind") != KIND or facts.get("schema_version") != SCHEMA:
            raise ValueError(f"its kind is {facts.get('kind')!r}, its schema {facts.get('schema_version')!r}")
        return dict(facts["options"])
    except OSError as error:
        reason = error.strerror or error
        raise StorageNotFoundError(f"{name_of(source)}: The session options cannot be read: {reason}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise not_options(source, error) from error


def not_options(source: str | os.PathLike[str] | IO[Any], error: Exception) -> InvalidArgumentError:
    """The error for a file whose contents are no session options."""
    return InvalidArgumentError(
        f"{name_of(source)}: It holds no session options: {error}.",
        hint="Write it with options.save(path), or `winml-py tune`.",
    )
