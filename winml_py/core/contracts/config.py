"""Configs of other libraries: files of JSON or YAML, or dicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from ...errors import InvalidArgumentError, NotSupportedError
from ..base.arguments import JsonSource, get_source_name, make_open_error, open_text

Source = JsonSource


class Config(NamedTuple):
    """The values of a config, and its name in errors."""

    name: str
    values: Mapping[str, Any]


def read_config(source: Source, list_key: str = "") -> Config:
    """Reads a config.

    Args:
        source: a file, an open one, or the values themselves.
        list_key: the key for a plain list; "" where a list means nothing.

    Raises:
        StorageNotFoundError: there is no such file.
        InvalidArgumentError: it is not a JSON object.
    """
    if isinstance(source, Mapping):
        return Config("The config", source)
    path = get_source_name(source)
    kind = "YAML" if path.endswith((".yml", ".yaml")) else "JSON"
    try:
        with open_text(source) as file:
            values = _load_yaml(file) if kind == "YAML" else json.load(file)
    except OSError as error:
        raise make_open_error(source, error) from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{path}: Expected valid {kind}: {error}.", hint="Check the file.") from error
    if list_key and isinstance(values, list):
        values = {list_key: values}
    if not isinstance(values, dict):
        raise InvalidArgumentError(f"{path}: Expected a JSON object.", hint="Pass a preprocessor_config.json.")
    return Config(path, values)


def _load_yaml(file: IO[Any]) -> Any:
    """Reads YAML. References to other parts are shared, but merges of them could fill the memory."""
    import yaml  # here, because few configs need it

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def flatten_mapping(self, node: object) -> None:
            pass

    try:
        return yaml.load(file, Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


_MAX_NUMBER = 1 << 53
"""Whole numbers from here on are not exact as float64, and are not sizes."""


def require_numbers(name: str, key: str, value: object) -> None:
    """Refuses, with NotSupportedError, numbers that JSON can spell but no setting can be, such as 1e400."""
    if isinstance(value, Mapping):
        for inner, item in value.items():
            require_numbers(name, f"{key}[{inner!r}]", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            require_numbers(name, f"{key}[{index}]", item)
    elif isinstance(value, (int, float)) and not abs(value) < _MAX_NUMBER:  # so that NaN is refused, too
        raise make_config_error(
            name, f"{key} is {value if isinstance(value, float) else 'a number of more than 15 digits'}"
        )


@contextmanager
def prefix_errors(name: str) -> Iterator[None]:
    """Puts the name of the config before a contract's error."""
    try:
        yield
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{name}: {error.message}", hint=error.hint) from error


def make_config_error(name: str, what: str, hint: str = "") -> NotSupportedError:
    """The error for a config that no contract matches exactly."""
    return NotSupportedError(
        f"{name}: {what}.",
        hint=hint
        or "Find out how the processor prepares pictures, and create the contract yourself with ImageContract(...). Or "
        "create the tensor yourself.",
    )
