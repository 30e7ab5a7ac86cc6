"""Image contracts in files of their own: JSON with the words of a model's metadata.

`json.dump(contract.to_metadata(), file)` writes one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ..base.suggestions import did_you_mean
from ..errors import InvalidArgumentError, StorageNotFoundError
from ..imaging.contract import OUR_KEYS, WINDOWS_KEYS, ImageContract

_KEYS = (*WINDOWS_KEYS, *OUR_KEYS)


def contract_from_file(path: str | os.PathLike[str]) -> ImageContract:
    """The contract that a file states.

    Args:
        path: of a JSON file whose keys are those of a model's metadata: `{"Image.BitmapPixelFormat": "Rgb8", ...}`.

    Raises:
        StorageNotFoundError: there is no such file.
        InvalidArgumentError: it states no contract, has a key that there is not, or a word that means nothing.
    """
    try:
        with open(path, encoding="utf-8") as file:
            words = json.load(file)
    except OSError as error:
        raise StorageNotFoundError(f"The contract {os.fspath(path)} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise _no_contract(path, f"it is no JSON: {error}") from error
    if not isinstance(words, dict) or not words or not all(isinstance(word, str) for word in words.values()):
        raise _no_contract(path, "it is no mapping of words to words")
    return _from_words(path, words)


def _from_words(path: str | os.PathLike[str], words: Mapping[str, str]) -> ImageContract:
    unknown = next((key for key in words if key not in _KEYS), None)
    if unknown is not None:
        raise InvalidArgumentError(
            f"{os.fspath(path)} has the key {unknown!r}, which contracts do not have.",
            hint=did_you_mean(unknown, _KEYS),
        )
    try:
        return ImageContract.from_metadata(words)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{os.fspath(path)}: {error}") from error


def _no_contract(path: str | os.PathLike[str], why: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{os.fspath(path)} states no image contract: {why}.",
        hint='Write one: json.dump(ImageContract.imagenet().to_metadata(), open(path, "w")).',
    )
