"""The protocol between a session and its engine's process: short messages, and tensors in shared memory.

The session's side sends names and pickles. The engine's side answers only with JSON and numbers, because a process
whose memory a model has corrupted may send anything, and reading a pickle can call any function.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .... import errors
from ....enums import Precision
from ....errors import EvaluationError, WinMLError
from ...base.arrays import Array
from ...base.messages import type_name
from ..engine import Explanation
from ..runs import Value

ARGUMENTS, STOPPABLE, STOP, MEMORY, LANE = b"arguments", b"stoppable", b"stop", b"memory", b"lane"
"""The session's messages other than calls, which are names of functions: the next call has arguments; it may be
stopped; stop it; shared memory of so many bytes; another lane. The arguments as a pickle, the memory, or the lane's
connection follow."""

AGAIN, ANSWER = b"again", b"answer"
"""The engine's messages: the same answer as the last one; another answer, which follows as JSON."""

MOST_JSON = 1 << 31
"""The largest answer in bytes. The longest answers are profiles."""

ALIGNMENT = 64
"""The alignment in bytes, which suits the kernels of all processors."""

Place = tuple[str, str, tuple[int, ...], int]
"""The place of an array in shared memory: the name of its input or output, its dtype in numpy's spelling, its shape,
and its offset in bytes."""


def place(arrays: Iterable[tuple[str, Array]], end: int = 0) -> tuple[list[Place], int]:
    """Consecutive places for arrays from `end` on; and the end of the last one."""
    places = []
    for name, array in arrays:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        places.append((name, array.dtype.str, array.shape, start))
        end = start + array.nbytes
    return places, end


def view(memory: mmap.mmap | bytearray, place: Place) -> Array:
    """The array at a place in shared memory.

    Raises:
        ValueError: its elements are not numbers.
        TypeError: it does not fit into the memory.
    """
    _, kind, shape, start = place
    dtype = np.dtype(kind)
    if dtype.hasobject:  # the bytes of objects are pointers
        raise ValueError(f"an array of {dtype}")
    return np.ndarray(shape, dtype, memory, start)


def split(values: Mapping[str, Value]) -> tuple[dict[str, Array], dict[str, Value]]:
    """Splits values into arrays of numbers, which go through shared memory, and the rest."""
    arrays = {
        name: value for name, value in values.items() if isinstance(value, np.ndarray) and not value.dtype.hasobject
    }
    return arrays, {name: value for name, value in values.items() if name not in arrays}


# Values and errors as JSON.


def to_json(value: Value) -> Any:
    """Converts a value that is not an array of numbers to JSON; numbers inside it with their type and shape."""
    if isinstance(value, np.ndarray):
        kind = "O" if value.dtype.hasobject else value.dtype.str
        # Numbers are sent as bytes: JSON has no complex numbers, and no standard NaN.
        elements = value.reshape(-1).tolist() if kind == "O" else value.tobytes().hex()
        return {"array": kind, "shape": value.shape, "elements": elements}
    if isinstance(value, dict):
        return {"map": [[key, to_json(item)] for key, item in value.items()]}
    if isinstance(value, list):
        return {"list": [to_json(item) for item in value]}
    return value.item() if isinstance(value, np.generic) else value


def from_json(facts: Any) -> Any:
    """Converts JSON from `to_json` to the value."""
    if not isinstance(facts, dict):
        return facts
    if "map" in facts:
        return {key: from_json(item) for key, item in facts["map"]}
    if "list" in facts:
        return [from_json(item) for item in facts["list"]]
    if facts["array"] == "O":
        array = np.empty(len(facts["elements"]), object)
        array[:] = facts["elements"]
    else:
        array = np.frombuffer(bytearray.fromhex(facts["elements"]), np.dtype(facts["array"]))
    return array.reshape(facts["shape"])


def explanation_from_json(facts: list[Any]) -> Explanation:
    """Converts the list of an explanation's fields, with enumerations as numbers, to that of an isolated engine."""
    engine, precision, *rest = facts
    explanation = Explanation(engine, Precision(precision), *rest)
    return explanation._replace(reason=f"{explanation.reason}; in a separate process")


def error_to_json(error: BaseException) -> Mapping[str, Any]:
    """Converts an error to JSON: a WinMLError as it is, others as an `EvaluationError` with their message."""
    if not isinstance(error, WinMLError):
        error = EvaluationError(f"The engine's process raised {type_name(error)}: {error}")
    name = type(error).__name__
    return {"class": name, "message": error.message, "hint": error.hint, "hresult": error.hresult}


def error_from_json(facts: Mapping[str, Any]) -> WinMLError:
    """Converts JSON from `error_to_json` to the error."""
    kind = getattr(errors, str(facts["class"]), None)
    if not (isinstance(kind, type) and issubclass(kind, WinMLError)):
        kind = EvaluationError
    return kind(str(facts["message"]), hint=str(facts["hint"]), hresult=int(facts["hresult"]))
