"""What a session and the process of its engine send each other: short messages, and tensors in shared memory.

The session's side sends pickles. The engine's side answers with JSON and numbers alone, because a process whose memory
a model has spoilt may send anything, and a pickle can call any function where it is read.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import socket
import struct
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .... import errors
from ....enums import Precision
from ....errors import EvaluationError, NotSupportedError, WinMLError
from ...base.arrays import Array
from ...base.messages import type_name
from ..engine import Candidate, Explanation, Value

HEAD = struct.Struct("<IQQ")
"""Of each message: what it is, and two numbers."""

# From the session, on the socket of one lane.
RUN, RUN_WITH_VALUES, CALL, MEMORY = range(4)
"""Run a plan (its number; 1 where threads spin, or 0); the same with values and a stop (its number, the stop's or 0; a
pickle follows); call a function (0, the stop's number or 0; a pickle follows); here is other shared memory (its size;
the file follows)."""

# From the session, on the socket of the process.
LANE, STOP = range(2)
"""Here is another lane (its socket follows); stop the run of that number."""

# Answers.
DONE, ANSWER, FAILURE, NEEDS = range(4)
"""The outputs stand in shared memory where they stood before; here is JSON (its size); here is an error (the size of
its JSON); so many bytes of shared memory are needed."""

DONE_MESSAGE = HEAD.pack(DONE, 0, 0)

MOST_JSON = 1 << 31
"""Bytes of an answer beside tensors. The longest are profiles."""

ALIGNMENT = 64
"""Bytes: what the kernels of all processors like."""


SPIN_SECONDS = 200e-6
"""For so long a side that spins asks again and again whether a message has come, before it sleeps until one does."""


# Messages.


LAST_STANDARD = 2
"""The number of standard error, the last of the files that every process has."""


class Channel(socket.socket):
    """A socket that nobody need close: sessions are not always closed, and Python warns of other sockets."""

    __slots__ = ()

    def __del__(self) -> None:
        self.close()


def make_channel() -> tuple[Channel, socket.socket]:
    """The two ends of a channel: for this process, and for the other one.

    Raises:
        OSError: this process has no more files.
    """
    import fcntl

    ours, theirs = socket.socketpair()
    if theirs.fileno() <= LAST_STANDARD:  # this process has closed its standard files: the other one has them
        kept, theirs = theirs, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, LAST_STANDARD + 1))
        kept.close()
    # Not by its number: an exception out of nowhere, such as Ctrl-C, would lose that, and nobody would close it.
    ours.__class__ = Channel
    assert isinstance(ours, Channel)
    return ours, theirs


def send(to: socket.socket, what: int, first: int = 0, second: int = 0, payload: bytes = b"") -> None:
    """Sends a message whole."""
    to.sendall(HEAD.pack(what, first, second) + payload)


def receive(source: socket.socket, size: int) -> bytes:
    """So many bytes.

    Raises:
        EOFError: the other side has ended.
    """
    try:
        data = source.recv(size, socket.MSG_WAITALL)
        while len(data) < size:  # a signal, or a message larger than what the system holds
            more = source.recv(size - len(data), socket.MSG_WAITALL)
            if not more:
                raise EOFError
            data += more
    except ConnectionError as error:
        raise EOFError from error
    return data


def receive_head(source: socket.socket, spins: bool) -> bytes:
    """The head of a message; nothing where the other side has ended.

    Args:
        source: whence.
        spins: whether to spin first. A processor that has gone to sleep may take longer to wake up than a small model
            takes to run. What else wants the processor meanwhile gets it.
    """
    end = time.perf_counter() + SPIN_SECONDS if spins else 0.0
    while spins and time.perf_counter() < end:
        try:
            head = source.recv(HEAD.size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            os.sched_yield()
        else:
            return head if len(head) in (0, HEAD.size) else head + receive(source, HEAD.size - len(head))
    return source.recv(HEAD.size, socket.MSG_WAITALL)


def send_pickle(to: socket.socket, what: int, first: int, second: int, thing: object) -> None:
    """Sends a message with a pickle, which is not held in memory whole: it may have a model in it."""
    with to.makefile("wb") as stream:
        stream.write(HEAD.pack(what, first, second))
        pickle.dump(thing, stream, pickle.HIGHEST_PROTOCOL)


def receive_pickle(source: socket.socket) -> Any:
    """What `send_pickle` sent, behind its head."""
    # Without a buffer: it would read what comes after the pickle.
    with source.makefile("rb", buffering=0) as stream:
        return pickle.load(_Exact(stream))


class _Exact:
    """Gives a pickle exactly what it asks for, and no byte of what follows it."""

    def __init__(self, stream: socket.SocketIO) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        """So many bytes, or fewer at the end."""
        data = bytearray(size)
        return bytes(data[: self.readinto(data)])

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fills the buffer, and gives how much of it was filled."""
        view, filled = memoryview(buffer), 0
        while filled < len(view):
            came = self._stream.readinto(view[filled:])
            if not came:
                break
            filled += came
        return filled

    def readline(self) -> bytes:
        """Bytes up to the end of a line; only old pickles have lines."""
        line = bytearray()
        while not line.endswith(b"\n") and (byte := self.read(1)):
            line += byte
        return bytes(line)


def send_json(to: socket.socket, what: int, facts: object) -> None:
    """Sends a message with JSON."""
    payload = json.dumps(facts).encode()
    send(to, what, len(payload), 0, payload)


def receive_json(source: socket.socket, size: int) -> Any:
    """What `send_json` sent, behind its head.

    Raises:
        ValueError: it is no JSON, or larger than anything that is meant.
    """
    if size > MOST_JSON:
        raise ValueError(f"an answer of {size:,} bytes")
    return json.loads(receive(source, size))


def send_file(to: socket.socket, what: int, file: int, number: int = 0) -> None:
    """Sends an open file. It goes with a byte of its own: a read of bytes alone would throw it away."""
    send(to, what, number)
    socket.send_fds(to, [b"\0"], [file])


def receive_file(source: socket.socket) -> int:
    """The file that `send_file` sent, behind its head.

    Raises:
        EOFError: the other side has ended.
    """
    data, files, _, _ = socket.recv_fds(source, 1, 1)
    if not data or not files:
        raise EOFError
    return files[0]


def send_lane(to: socket.socket, what: int, lane: int) -> None:
    """Sends a socket to the process itself, in one piece: an exception in between would spoil all that follows."""
    socket.send_fds(to, [HEAD.pack(what, 0, 0)], [lane])


def receive_order(source: socket.socket) -> tuple[int, int, list[int]]:
    """What the process is to do, of which number, and the file that came with it.

    Raises:
        EOFError: the other side has ended.
    """
    data, files, _, _ = socket.recv_fds(source, HEAD.size, 1)
    if not data:
        raise EOFError
    if len(data) < HEAD.size:
        data += receive(source, HEAD.size - len(data))
    what, number, _ = HEAD.unpack(data)
    return what, number, files


def require_system() -> None:
    """Refuses a system that cannot hand an open file to another process.

    Raises:
        NotSupportedError: if it is such a system.
    """
    if not hasattr(socket, "send_fds"):
        raise NotSupportedError(
            f"An engine in a process of its own needs Linux or macOS, and this is {sys.platform}.",
            hint="Set options.isolation = None, and run the whole program in a process that may end.",
        )


# Shared memory.


class Layout(NamedTuple):
    """Where an array is in shared memory.

    Attributes:
        name: of the input or output.
        kind: the array's dtype, as numpy spells it.
        shape: its shape.
        start: the offset in bytes.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int


def view(memory: mmap.mmap, kind: str, shape: tuple[int, ...], start: int) -> Array:
    """An array of numbers over a part of shared memory.

    Raises:
        ValueError: it does not fit into the memory, or is not of numbers.
    """
    dtype = np.dtype(kind)
    if dtype.hasobject:  # its bytes would be addresses
        raise ValueError(f"an array of {dtype}")
    return np.ndarray(shape, dtype, memory, start)


def place(start: int, size: int) -> tuple[int, int]:
    """Where an array of so many bytes may begin, at `start` or behind it; and where it ends."""
    start = -(-start // ALIGNMENT) * ALIGNMENT
    return start, start + size


# Values and errors as JSON.


def is_array_of_numbers(value: object) -> bool:
    """Whether a value has an address: it stands in shared memory then."""
    return isinstance(value, np.ndarray) and not value.dtype.hasobject


def to_json(value: Value) -> Any:
    """A value that is not an array of numbers, in JSON; numbers inside of it with their type and shape."""
    if isinstance(value, np.ndarray):
        kind = "O" if value.dtype.hasobject else value.dtype.str
        return {"array": kind, "shape": value.shape, "elements": _elements(value)}
    if isinstance(value, dict):
        return {"map": [[key, to_json(item)] for key, item in value.items()]}
    if isinstance(value, list):
        return {"list": [to_json(item) for item in value]}
    return value.item() if isinstance(value, np.generic) else value


def _elements(array: Array) -> Any:
    # Numbers go as their bytes: JSON has no complex numbers, and no NaN that others read.
    return array.reshape(-1).tolist() if array.dtype.hasobject else array.tobytes().hex()


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


def explanation_to_json(explanation: Explanation) -> list[Any]:
    """An explanation as JSON; its two enumerations are numbers there."""
    return list(explanation)


def explanation_from_json(facts: list[Any]) -> Explanation:
    """The explanation that `explanation_to_json` wrote."""
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
