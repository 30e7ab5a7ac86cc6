"""The names of a model's classes, from its metadata, a `config.json`, or a file with one per line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping

from ...errors import InvalidArgumentError
from ..base.arguments import is_text, make_open_error
from ..base.messages import logger, require_no_pointer, type_name
from .config import Source, read_config

LABELS_KEY = "Labels"
"""The key of a model's metadata with the names of its classes, a JSON list."""


def read_written_labels(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes in a model's metadata under our key; none where they are not a list of texts."""
    try:
        labels = json.loads(metadata.get(LABELS_KEY, "[]"))
    except (ValueError, RecursionError):
        labels = None
    if (names := order_labels(labels)) is None:
        logger.info("the metadata entry %s is not used, because it is not a JSON list of texts", LABELS_KEY)
    return names or ()


def require_labels(labels: object) -> tuple[str, ...]:
    """The names of classes that a caller passes: a sequence of names, or a file with them; see `labels_of`."""
    if isinstance(labels, (str, os.PathLike)):  # a str is a sequence, too
        return labels_of(labels)
    if isinstance(labels, (Mapping, set, frozenset)) or not isinstance(labels, Iterable):  # sets have no order
        raise InvalidArgumentError(
            f"Expected class names, got {type_name(labels)}.",
            hint="Pass a list with one name for each class, or the path to a file with one name per line.",
        )
    return tuple(labels)


def labels_of(source: Source) -> tuple[str, ...]:
    """The names of a model's classes, in the order of its scores.

    Args:
        source: a text file with one name per line; a `.json` file with a list of names, or with names by number; or a
            config of Hugging Face (`id2label`) or timm (`label_names`): the path to a `.json` file, an open one, or the
            contents of such a file.

    Returns:
        The names; empty where the config states none.

    Raises:
        StorageNotFoundError: there is no such file.
        InvalidArgumentError: it is not UTF-8 text or not a JSON object, or the names are not numbered from 0.

    Example:
        >>> from winml_py import labels_of
        >>> labels_of({"id2label": {"0": "cat", "1": "dog"}})
        ('cat', 'dog')
    """
    if isinstance(source, (str, os.PathLike)) and not os.fspath(source).lower().endswith(".json"):
        return _read_lines(os.fspath(source))
    name, values = read_config(source, "label_names")
    inner = values.get("pretrained_cfg")
    names = values.get("id2label") or values.get("label_names")
    if names is None and isinstance(inner, Mapping):
        names = inner.get("label_names")
    if names is None and all(str(key).isdecimal() for key in values):
        names = values
    labels = order_labels(names or ())
    if labels is None:
        raise InvalidArgumentError(
            f"{name}: The class names are not numbered from 0, or are not text that UTF-8 can encode.",
            hint='Number them from 0: {"id2label": {"0": "cat", "1": "dog"}}.',
        )
    return labels


def _read_lines(path: str) -> tuple[str, ...]:
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as file:
            text = file.read()
    except OSError as error:
        raise make_open_error(path, error) from error
    except ValueError as error:  # not UTF-8, or NUL in the path
        raise InvalidArgumentError(
            f"{path}: Expected UTF-8 text with labels: {error}.", hint="Write one name per line."
        ) from error
    require_no_pointer(text[:64].encode(), path, "labels", InvalidArgumentError)
    return tuple(line.strip() or line.strip("\r") for line in text.rstrip("\r\n").split("\n"))


def order_labels(names: object) -> tuple[str, ...] | None:
    """Names as a tuple; None unless they are a list of texts or a mapping of 0, 1, 2... to texts."""
    if isinstance(names, Mapping):
        numbered = {str(key): label for key, label in names.items()}
        names = [numbered.get(str(number)) for number in range(len(numbered))]
    if not isinstance(names, (list, tuple)) or not all(map(is_text, names)):
        return None
    return tuple(names)
