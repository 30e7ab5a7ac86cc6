"""What a session and the process of its engine send each other: short messages, and tensors in shared memory.

The session's side sends pickles. The engine's side answers with JSON and numbers alone, because a process whose memory
a model has spoilt may send anything, and a pickle can call any function where it is read.
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
from ..engine import Candidate, Explanation
from ..runs import Value

STOPPABLE, STOP, MEMORY, LANE = b"stoppable", b"stop", b"memory", b"lane"
"""Messages of the session beside calls, which are pickles: the next call may be stopped; stop it; here is shared memory
of so many bytes, or another lane. The memory, or the connection of the lane, is what comes next."""

MOST_JSON = 1 << 31
"""Bytes of an answer. The longest are profiles."""

ALIGNMENT = 64
"""Bytes: what the kernels of all processors like."""


Place = tuple[str, str, tuple[int, ...], int]
"""Where an array is in shared memory: the name of its input or output, its dtype as numpy spells it, its shape, and the
offset in bytes."""


def place(arrays: Iterable[tuple[str, Array]], end: int = 0) -> tuple[list[Place], int]:
    """Places for arrays, one behind the other from `end` on; and where the last one ends."""
    places = []
    for name, array in arrays:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        places.append((name, array.dtype.str, array.shape, start))
        end = start + array.nbytes
    return places, end


def view(memory: mmap.mmap | bytearray, place: Place) -> Array:
    """The array at a place in shared memory.

    Raises:
        ValueError: it is not of numbers.
        TypeError: it does not fit into the memory.
    """
    _, kind, shape, start = place
    dtype = np.dtype(kind)
    if dtype.hasobject:  # its bytes would be addresses
        raise ValueError(f"an array of {dtype}")
    return np.ndarray(shape, dtype, memory, start)


def split(values: Mapping[str, Value]) -> tuple[dict[str, Array], dict[str, Value]]:
    """The arrays of numbers, which go through shared memory; and the rest."""
    arrays = {
        name: value for name, value in values.items() if isinstance(value, np.ndarray) and not value.dtype.hasobject
    }
    return arrays, {name: value for name, value in values.items() if name not in arrays}


# Values and errors as JSON.


def to_json(value: Value) -> Any:
    """A value that is not an array of numbers, in JSON; numbers inside of it with their type and shape."""
    if isinstance(value, np.ndarray):
        kind = "O" if value.dtype.hasobject else value.dtype.str
        # Numbers go as their bytes: JSON has no complex numbers, and no NaN that others read.
        elements = value.reshape(-1).tolist() if kind == "O" else value.tobytes().hex()
        return {"array": kind, "shape": value.shape, "elements": elements}
    if isinstance(value, dict):
        return {"map": [[key, to_json(item)] for key, item in value.items()]}
    if isinstance(value, list):
        return {"list": [to_json(item) for item in value]}
    return value.item() if isinstance(value, np.generic) else value


def from_json(facts: Any) -> Any:
    """The value that `to_json` wrote."""
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
    """The explanation whose fields were written, one after the other; its enumerations as numbers."""
    engine, precision, reason, candidates, *rest = facts
    looked_at = tuple(Candidate(name, Precision(kind), *figures) for name, kind, *figures in candidates)
    return Explanation(engine, Precision(precision), reason, looked_at, *rest)


def error_to_json(error: BaseException) -> Mapping[str, Any]:
    """An error as JSON: one of ours as it is, another as an `EvaluationError` with its words."""
    if not isinstance(error, WinMLError):
        error = EvaluationError(f"The engine's process raised {type_name(error)}: {error}")
    name = type(error).__name__
    return {"class": name, "message": error.message, "hint": error.hint, "hresult": error.hresult}


def error_from_json(facts: Mapping[str, Any]) -> WinMLError:
    """The error that `error_to_json` wrote."""
    kind = getattr(errors, str(facts["class"]), None)
    if not (isinstance(kind, type) and issubclass(kind, WinMLError)):
        kind = EvaluationError
    return kind(str(facts["message"]), hint=str(facts["hint"]), hresult=int(facts["hresult"]))
