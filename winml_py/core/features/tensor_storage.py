"""TensorStorage: the memory of a tensor, and its state."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from ...errors import IllegalCallError, InvalidArgumentError
from ..base.buffers import MemoryBufferReference
from ..base.device_array import DeviceArray

Array = np.ndarray[Any, Any]

_lock = threading.Lock()
"""Held while a placeholder gets its memory, and while its references are counted, neither of which takes long."""


class TensorStorage:
    """The memory of a tensor: the host's, a device's, or none yet.

    The evaluation that a tensor is bound to as an output talks to its storage; users see the tensor alone.

    Attributes:
        owner: the tensor's class.
        array: the memory, where it is the host's.
        shape: the sizes; None for a placeholder that has none yet.
        device_array: the memory, where it is a device's.
        is_closed: whether the tensor has been closed.
        is_invalid: whether the last evaluation that was to write the memory has failed: it may be half written, or hold
            the numbers of an earlier one.
    """

    __slots__ = ("_references", "array", "device_array", "is_closed", "is_invalid", "owner", "shape")

    def __init__(
        self,
        owner: type[Any],
        array: Array | None = None,
        shape: tuple[int, ...] | None = None,
        device_array: DeviceArray | None = None,
    ) -> None:
        self.owner, self.array, self.shape, self.device_array = owner, array, shape, device_array
        self.is_closed = self.is_invalid = False
        self._references: weakref.WeakSet[MemoryBufferReference] | None = None

    @property
    def is_placeholder(self) -> bool:
        """Whether there is no memory yet."""
        self.require_open()
        return self.array is None and self.device_array is None

    def memory(self) -> Array:
        """The host's array, made of zeros for a placeholder; of a device's memory a copy.

        Raises:
            IllegalCallError: the tensor is closed, or a placeholder without a shape.
        """
        array, device_array = self.array, self.device_array
        self.require_open()  # after the look at the array, for another thread may close it in between
        if device_array is not None:
            return device_array.to_numpy()
        if array is None:
            if self.shape is None or -1 in self.shape:
                raise IllegalCallError(
                    f"This {self.owner.__name__} has no data yet.",
                    hint="It gets them when it is bound to an output and the session evaluates, or from create(shape).",
                )
            with _lock:
                array = self.array = zeros(self.owner, self.shape) if self.array is None else self.array
        return array

    def adopt(self, memory: Array | DeviceArray) -> None:
        """Takes an evaluation's output as its own memory."""
        self.require_open()
        is_array = isinstance(memory, np.ndarray)
        self.shape = memory.shape
        self.array, self.device_array = (memory, None) if is_array else (None, memory)  # type: ignore[assignment]

    def add(self, reference: MemoryBufferReference) -> None:
        """Remembers a reference to the memory for as long as somebody holds it."""
        with _lock:
            if self._references is None:
                self._references = weakref.WeakSet()
            self._references.add(reference)

    @property
    def has_open_references(self) -> bool:
        """Whether a reference is still open."""
        if self._references is None:
            return False
        with _lock:
            return any(not reference.is_closed for reference in self._references)

    def close(self) -> None:
        """Lets go of the memory."""
        self.is_closed = True  # first, or another thread would take it for a placeholder
        self.array = self.device_array = None

    def require_valid(self) -> None:
        """Refuses a tensor that a failed evaluation was to write.

        Raises:
            IllegalCallError: it is one, and no evaluation has succeeded since.
        """
        if self.is_invalid:
            raise IllegalCallError(
                f"This {self.owner.__name__} is an output of an evaluation that failed or was stopped; its data are "
                "invalid.",
                hint="Evaluate again, or use another tensor.",
            )

    def require_open(self) -> None:
        """Refuses a tensor that has been closed.

        Raises:
            IllegalCallError: it has.
        """
        if self.is_closed:
            raise IllegalCallError(
                f"This {self.owner.__name__} has been closed.", hint="Keep it open while it is bound or read."
            )


def zeros(owner: type[Any], sizes: tuple[int, ...]) -> Array:
    """A new array of zeros; of empty strings, where the elements are strings.

    Raises:
        InvalidArgumentError: it does not fit into memory.
    """
    try:
        return np.full(sizes, "", object) if owner.dtype == object else np.zeros(sizes, owner.dtype)
    except (ValueError, MemoryError) as error:
        raise InvalidArgumentError(f"A tensor of shape {sizes} does not fit into memory: {error}.") from error
