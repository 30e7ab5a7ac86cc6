"""Session options in a file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.atomic_files import require_folder, written_to, written_whole
from ..enums import Precision, Weights
from ..errors import InvalidArgumentError, StorageNotFoundError, WinMLError
from ..runtime.tuning import Tuning

if TYPE_CHECKING:
    from .options import LearningModelSessionOptions

SCHEMA = 1
KIND = "session-options"

_PLAIN = (
    "batch_size_override",
    "intra_op_num_threads",
    "intra_op_thread_spinning",
    "engine",
    "provider_options",
    "graph_capture",
    "allow_cpu_fallback",
    "close_model_on_session_creation",
    "profiling",
)

_FLAGS = ("intra_op_thread_spinning", "allow_cpu_fallback", "close_model_on_session_creation", "profiling")

Options = TypeVar("Options", bound="LearningModelSessionOptions")


def described(options: LearningModelSessionOptions) -> dict[str, Any]:
    """All settings, ready for JSON."""
    return {name: getattr(options, name) for name in _PLAIN} | {
        "named_dimensions": dict(options.named_dimension_overrides),
        "precision": options.precision.name.lower(),
        "weights": options.weights.name.lower(),
        "tuning": asdict(options.tuning),
    }


def save(options: LearningModelSessionOptions, path: str | os.PathLike[str], **notes: Any) -> None:
    """Writes the settings, and notes beside them, to a file."""
    require_folder(path)
    facts = {"schema_version": SCHEMA, "kind": KIND, "options": described(options), **notes}
    with written_to(path), written_whole(os.fspath(path)) as file:
        file.write((json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode())


def load(options: Options, path: str | os.PathLike[str]) -> Options:
    """Sets what a file says; what it does not name stays."""
    name = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        if facts["kind"] != KIND or facts["schema_version"] != SCHEMA:
            raise ValueError(f"its kind is {facts.get('kind')!r}, its schema {facts.get('schema_version')!r}")
        for key, value in dict(facts["options"]).items():
            _set(options, key, value)
    except WinMLError as error:  # before OSError, which it is, too
        raise InvalidArgumentError(f"{name}: {error}", hint="Correct the file, or write it anew.") from error
    except OSError as error:
        raise StorageNotFoundError(f"The session options {name} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{name} holds no session options: {error}.", hint="Write it with options.save(path), or `winml-py tune`."
        ) from error
    return options


def made(values: dict[str, Any]) -> LearningModelSessionOptions:
    """Options of what `described` gave."""
    from .options import LearningModelSessionOptions

    options = LearningModelSessionOptions()
    for key, value in values.items():
        _set(options, key, value)
    return options


def _set(options: LearningModelSessionOptions, key: str, value: Any) -> None:
    if key == "precision":
        options.precision = Precision[value.upper()]
    elif key == "weights":
        options.weights = Weights[value.upper()]
    elif key == "tuning":
        options.tuning = Tuning(**value)
    elif key == "named_dimensions":
        for name, size in value.items():
            options.override_named_dimension(name, size)
    elif key in _FLAGS and not isinstance(value, bool):
        raise TypeError(f"{key} is {value!r}, and not true or false")
    elif key in _PLAIN:
        setattr(options, key, value)
    else:
        raise KeyError(key)
