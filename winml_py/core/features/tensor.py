"""The base of the tensor classes: a typed, shaped array with WinRT's factories and Python's protocols."""

from __future__ import annotations

import math
import operator
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from ...enums import LearningModelFeatureKind, TensorKind
from ...errors import (
    E_INVALIDARG,
    EvaluationError,
    IllegalCallError,
    InvalidArgumentError,
    MissingPackageError,
    SizeMismatchError,
)
from ..base.arrays import (
    Array,
    DeviceArray,
    DType,
    as_host_array,
    as_unmasked_array,
    import_cupy,
    translate_library_errors,
)
from ..base.buffers import MemoryBufferReference, view_as_bytes
from ..base.collections import Vector, VectorView
from ..base.winrt_object import Closeable, Object

T = TypeVar("T", bound="Tensor")


class Tensor(Closeable, Object):
    """A tensor of one element type.

    A tensor owns an array or shares the caller's (`from_numpy`, `create_from_buffer`). One made by
    `create` is a placeholder: it has no memory until it is first read, or until an evaluation
    writes the output that it is bound to.

    Attributes:
        tensor_kind: the element type, as WinRT names it.
        dtype: the element type in memory.
        view_dtype: the element type that `create_from_array` takes and `get_as_vector_view` returns.
    """

    __slots__ = ("__weakref__", "_private_state")

    tensor_kind: ClassVar[TensorKind]
    dtype: ClassVar[DType]
    view_dtype: ClassVar[DType]

    _exact_length: ClassVar[bool] = False
    _length_hresult: ClassVar[int] = E_INVALIDARG

    def __init_subclass__(cls, kind: TensorKind | None = None, dtype: Any = None, view: Any = None) -> None:
        if kind is not None:
            cls.tensor_kind, cls.dtype, cls.view_dtype = kind, np.dtype(dtype), np.dtype(view or dtype)

    def __init__(self, *storage: TensorStorage) -> None:
        # Tensors are made by the factories below: a constructor would have to guess whether to copy or to share.
        if len(storage) != 1 or not isinstance(storage[0], TensorStorage):
            raise TypeError(f"{type(self).__name__} has no constructor: use from_numpy, create or create_from_array")
        self._private_state = storage[0]

    @classmethod
    def create(cls, shape: Iterable[int] | None = None, /) -> Self:
        """A placeholder, usually bound to an output.

        Args:
            shape: with it, memory of zeros is allocated when the tensor is first read; without it, or where a size is
                -1, an evaluation supplies both shape and memory.

        Raises:
            InvalidArgumentError: a size below -1.
        """
        return _make_tensor(cls, None, None if shape is None else _read_shape(shape, free=None))

    @classmethod
    def create_from_array(cls, shape: Iterable[int], data: object, /) -> Self:
        """A tensor with a copy of `data`.

        Args:
            shape: the sizes; one may be -1 and is taken from the number of elements.
            data: an array of `view_dtype` of any shape, or a sequence of Python values, in row-major order. If it has
                fewer elements than the shape, zeros are added, as in Windows ML (not for float16).

        Raises:
            InvalidArgumentError: more elements than the shape holds, or of another type.
        """
        elements = cls._elements(data)
        sizes = _infer_free_size(_read_shape(shape), elements.size)
        if elements.size > math.prod(sizes) or (cls._exact_length and elements.size != math.prod(sizes)):
            relation = "exceeds" if elements.size > math.prod(sizes) else "is not"
            raise InvalidArgumentError(
                f"Argument size ({elements.size}) {relation} the tensor size ({math.prod(sizes)}) for shape {sizes}.",
                hint="Correct the shape; one dimension may be -1.",
                hresult=cls._length_hresult,
            )
        array = allocate_zeros(cls, sizes)
        array.reshape(-1)[: elements.size] = elements
        return _make_tensor(cls, array, sizes)

    @classmethod
    def create_from_iterable(cls, shape: Iterable[int], data: Iterable[object], /) -> Self:
        """As `create_from_array`, from any iterable; too many elements raise, too, which Windows ML does not check."""
        try:
            elements = data if isinstance(data, np.ndarray) else list(data)
        except TypeError as error:
            raise InvalidArgumentError(f"Expected an iterable for {cls.__name__}: {error}.") from error
        return cls.create_from_array(shape, elements)

    @classmethod
    def create_from_shape_array_and_data_array(cls, shape: Iterable[int], data: object, /) -> Self:
        """WinRT's name for `create_from_array` with plain arrays."""
        return cls.create_from_array(shape, data)

    @classmethod
    def create_from_buffer(cls, shape: Iterable[int], buffer: object, /) -> Self:
        """A tensor over the caller's memory: it sees later writes to the buffer, and outputs are written into it.

        Args:
            shape: the sizes; one may be -1 and is taken from the buffer's size.
            buffer: any C-contiguous buffer: `bytearray`, `memoryview`, a numpy array. Its bytes are elements of
                `dtype`.

        Raises:
            InvalidArgumentError: its size is not that of the shape.
        """
        flat = view_as_bytes(buffer)
        if flat.nbytes % cls.dtype.itemsize:
            raise InvalidArgumentError(f"{flat.nbytes} bytes are not a whole number of {cls.dtype.name} elements.")
        elements = np.frombuffer(flat, cls.dtype)
        sizes = _infer_free_size(_read_shape(shape), elements.size)
        if elements.size != math.prod(sizes):
            raise InvalidArgumentError(
                f"The buffer holds {elements.size} elements, but the shape {sizes} needs {math.prod(sizes)}.",
                hint="Correct the shape; one dimension may be -1.",
            )
        return _make_tensor(cls, elements.reshape(sizes), sizes)

    @classmethod
    def from_numpy(cls, array: Array, /) -> Self:
        """A tensor over an array: it shares the array's memory if that is C-contiguous, else it has a copy.

        Raises:
            InvalidArgumentError: the array's dtype is not `dtype`, as nothing is cast implicitly, or it has a mask.
        """
        elements = as_unmasked_array(array)
        if elements.dtype != cls.dtype:
            raise InvalidArgumentError(
                f"Expected an array of {cls.dtype.name} for {cls.__name__}, got {elements.dtype}.",
                hint=f"Cast it: array.astype(np.{cls.dtype.name}).",
            )
        if not elements.flags.carray:  # most arrays are; this check costs less than numpy's
            elements = np.require(elements, cls.dtype, ["C", "A"])
        return _make_tensor(cls, elements, elements.shape)

    @classmethod
    def from_dlpack(cls, array: object, /) -> Self:
        """A tensor over the memory of any object on the CPU that supports DLPack; raises as `from_numpy`."""
        return cls.from_numpy(as_host_array(array, InvalidArgumentError))

    @classmethod
    def _elements(cls, data: object) -> Array:
        if hasattr(data, "dtype") and data.dtype not in (cls.view_dtype, cls.dtype):
            raise InvalidArgumentError(
                f"{cls.__name__} takes {cls.view_dtype.name} elements, not {data.dtype}.",
                hint=f"Cast them: array.astype(np.{cls.view_dtype.name}).",
            )
        try:
            if hasattr(data, "dtype"):
                with np.errstate(over="ignore"):  # the program has chosen the cast: too large values become infinite
                    return np.asarray(data).reshape(-1).astype(cls.dtype, copy=False)
            natural = np.asarray(data)
            if natural.dtype == np.float64 and cls.dtype == np.uint64:  # so numpy holds 1 and 2**64 - 1 together
                whole = np.asarray(data, object)
                natural = whole.astype(np.uint64) if all(type(number) is int for number in whole.flat) else natural
            cls._require_numbers(natural)
            with np.errstate(over="ignore"):
                elements = np.asarray(data, cls.view_dtype).reshape(-1).astype(cls.dtype, copy=False)
            lost = np.isinf(elements) & np.isfinite(natural.reshape(-1))
            if lost.any():
                raise OverflowError(f"{natural.reshape(-1)[lost][0]} is outside the range of {cls.dtype.name}")
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"{cls.__name__} takes {cls.view_dtype.name} elements: {error}.", hint="Pass a flat list or an array."
            ) from error
        return elements

    @classmethod
    def _require_numbers(cls, natural: Array) -> None:
        """Refuses values that numpy would convert by guessing, truncating or wrapping: None, text, fractions, 300 as
        uint8.
        """
        expected, actual = cls.view_dtype.kind, natural.dtype.kind
        fits = {"f": "iuf", "i": "iu", "u": "iu", "b": "b"}[expected]
        if natural.size and actual not in fits:
            raise TypeError(f"got {'text' if actual == 'U' else natural.dtype.name} elements")
        if natural.size and expected in "iu":
            limits = np.iinfo(cls.view_dtype)
            for number in (int(natural.min()), int(natural.max())):
                if not limits.min <= number <= limits.max:
                    raise OverflowError(f"{number} is outside {limits.min} to {limits.max}")

    @property
    def kind(self) -> LearningModelFeatureKind:
        """Always `TENSOR`."""
        return LearningModelFeatureKind.TENSOR

    @property
    def shape(self) -> Vector[int]:
        """The sizes; () for a placeholder without a shape. Readable after `close`."""
        return Vector(self._private_state.shape or ())

    @property
    def is_placeholder(self) -> bool:
        """Whether the tensor has no memory yet."""
        return self._private_state.is_placeholder

    @property
    def is_on_device(self) -> bool:
        """Whether the numbers are in a GPU's memory: an output bound with `DisableTensorCpuSync`, or a result of
        `LearningModelSession.upload`. Such a tensor is bound to sessions on that GPU without a copy.
        """
        return self._private_state.device_array is not None

    def to_numpy(self) -> Array:
        """The tensor as an array of `dtype`: a view of its memory, so writing to it changes the tensor.

        The view keeps the memory alive after `close`. For a tensor on a device, each call returns a new read-only
        copy.

        Raises:
            IllegalCallError: the tensor is closed, is a placeholder without a shape, or is an output whose last
                evaluation failed.
        """
        self._private_state.require_valid()
        return self._private_state.memory()

    def write(self, data: Array, /) -> None:
        """Writes new numbers into the tensor's memory, which keeps its address: a GPU's captured graph reads from it.

        Args:
            data: an array of the tensor's shape and `dtype`.

        Raises:
            InvalidArgumentError, SizeMismatchError: another dtype, or another shape.
            IllegalCallError: the tensor is closed, or its memory is read-only or another library's.
        """
        array = type(self).from_numpy(data).to_numpy()
        device_array = self._private_state.device_array
        memory = self._private_state.memory() if device_array is None else None
        if array.shape != self._private_state.shape:
            raise SizeMismatchError(
                f"A tensor of shape {self._private_state.shape} cannot hold an array of shape {array.shape}.",
                hint="Create a new tensor for a different shape.",
            )
        if device_array is not None:
            device_array.write(array)
        elif memory is not None and memory.flags.writeable:
            np.copyto(memory, array)
        else:
            raise IllegalCallError("The tensor's memory is read-only.", hint="Create a new tensor from the array.")
        self._private_state.is_invalid = False

    def get_as_vector_view(self) -> VectorView:
        """A copy of the elements, in row-major order and as `view_dtype`; raises as `to_numpy`."""
        return VectorView(self.to_numpy().astype(self.view_dtype))

    def get_buffer(self) -> memoryview:
        """The tensor's memory in row-major order, writable if the array is; raises as `to_numpy`."""
        return self.to_numpy().data

    def create_reference(self) -> MemoryBufferReference:
        """WinRT's access to the memory. With an open reference, the tensor cannot be bound; `get_buffer` is simpler."""
        if self._private_state.is_closed:
            return MemoryBufferReference(None)
        reference = MemoryBufferReference(self.get_buffer())
        self._private_state.add(reference)
        return reference

    @property
    def has_open_references(self) -> bool:
        """Whether a reference from `create_reference` is still open."""
        return self._private_state.has_open_references

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.get_buffer()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.to_numpy(), dtype=dtype, copy=copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._private_state.device_array is None:
            raise AttributeError("__cuda_array_interface__")
        self._private_state.require_valid()
        return self._private_state.device_array.cuda_interface

    def to_cupy(self) -> Any:
        """The tensor as a CuPy array: a view of its memory on the GPU; for a tensor in host memory, a copy.

        Raises:
            MissingPackageError: CuPy cannot be imported.
            EvaluationError: CuPy failed: there is no card that it can use, say.
            WinMLError: as `to_numpy`.
        """
        cupy = import_cupy(MissingPackageError)
        self._private_state.require_open()
        self._private_state.require_valid()
        with translate_library_errors("CuPy", EvaluationError):
            return cupy.asarray(self if hasattr(self, "__cuda_array_interface__") else self.to_numpy())

    def __dlpack__(self, **options: Any) -> Any:
        if hasattr(self, "__cuda_array_interface__"):
            with translate_library_errors("CuPy", EvaluationError):
                return self.to_cupy().__dlpack__(**options)
        return self.to_numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device_array = self._private_state.device_array
        if device_array is not None and device_array.location.kind == "cuda":
            return 2, device_array.location.number  # DLPack's kDLCUDA: memory of an NVIDIA GPU
        kind, index = self.to_numpy().__dlpack_device__()
        return int(kind), index

    if not TYPE_CHECKING:  # type checkers report these errors themselves

        def __getitem__(self, _: object) -> None:
            raise TypeError(f"A {type(self).__name__} cannot be indexed. Write tensor.to_numpy()[...].")

        def __getattr__(self, name: str) -> None:
            hint = f" Write tensor.to_numpy().{name}." if hasattr(np.ndarray, name) else ""
            if name in ("save", "show"):
                hint = " Save the values with np.save(path, tensor.to_numpy()). An output is a picture only if the "
                hint += "model file gives it the denotation IMAGE."
            raise AttributeError(f"A {type(self).__name__} has no {name!r}.{hint}", name=name, obj=self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the class, the shape and the numbers, which are copied to the host's memory from a device."""
        array = None if self.is_placeholder else self.to_numpy()
        return _make_tensor, (type(self), array, self._private_state.shape)

    def close(self) -> None:
        """Releases the memory; `shape` and `kind` stay readable. A second call does nothing."""
        self._private_state.close()

    dispose = close

    def __repr__(self) -> str:
        storage = self._private_state
        state = "closed" if storage.is_closed else "placeholder" if storage.is_placeholder else ""
        if storage.device_array is not None:
            state = f"on {storage.device_array.location}"
        return f"<{type(self).__name__} {tuple(self.shape)}{' ' + state if state else ''}>"


def wrap_device_array(cls: type[T], array: DeviceArray) -> T:
    """A tensor over memory on a device, which it shares."""
    return cls(TensorStorage(cls, None, array.shape, array))


def wrap_array(cls: type[T], array: Array) -> T:
    """A tensor that shares a C-contiguous array of its class's dtype, unchecked."""
    return cls(TensorStorage(cls, array, array.shape))


def _make_tensor(cls: type[T], array: Array | None, shape: tuple[int, ...] | None) -> T:
    return cls(TensorStorage(cls, array, shape))


def _read_shape(shape: Iterable[int], free: int | None = 1) -> tuple[int, ...]:
    """The shape as a tuple; `free` is how many sizes may be -1, None for any number."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError as error:
        raise InvalidArgumentError(f"Expected a shape of whole numbers: {error}.") from error
    if any(size < -1 for size in sizes) or (free is not None and sizes.count(-1) > free):
        raise InvalidArgumentError(
            f"The shape {sizes} is invalid: sizes must be 0 or more, but one may be -1.",
            hint="Pass a valid shape, for example (1, -1).",
        )
    return sizes


def _infer_free_size(sizes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Replaces the -1 by what remains of `count` elements."""
    if -1 not in sizes:
        return sizes
    fixed_count = math.prod(size for size in sizes if size != -1)
    if fixed_count == 0 or count % fixed_count:
        raise InvalidArgumentError(
            f"{count} elements cannot fill the shape {sizes}: they are not divisible by {fixed_count}.",
            hint="Check the number of elements.",
        )
    return tuple(count // fixed_count if size == -1 else size for size in sizes)


# TensorStorage: the memory of a tensor, and its state.


_lock = threading.Lock()
"""Held briefly while a placeholder gets its memory, and while its references are counted."""


class TensorStorage:
    """The memory of a tensor: on the host, on a device, or none yet. Users see only the tensor.

    Attributes:
        owner: the tensor's class.
        array: the memory, if it is on the host.
        shape: the sizes; None for a placeholder that has none yet.
        device_array: the memory, if it is on a device.
        is_closed: whether the tensor has been closed.
        is_invalid: whether the last evaluation that should have written the memory failed.
    """

    __slots__ = ("_references", "array", "device_array", "is_closed", "is_invalid", "owner", "shape")

    def __init__(
        self,
        owner: type[Any],
        array: Array | None = None,
        shape: tuple[int, ...] | None = None,
        device_array: DeviceArray | None = None,
    ) -> None:
        self.owner = owner
        self.array = array
        self.shape = shape
        self.device_array = device_array
        self.is_closed = False
        self.is_invalid = False
        self._references: weakref.WeakSet[MemoryBufferReference] | None = None

    @property
    def is_placeholder(self) -> bool:
        """Whether there is no memory yet."""
        self.require_open()
        return self.array is None and self.device_array is None

    def memory(self) -> Array:
        """The host's array, zeros for a placeholder; for device memory, a copy."""
        array, device_array = self.array, self.device_array
        self.require_open()  # after reading the array: another thread may close it in between
        if device_array is not None:
            return device_array.to_numpy()
        if array is None:
            if self.shape is None or -1 in self.shape:
                raise IllegalCallError(
                    f"This {self.owner.__name__} has no data yet.",
                    hint="Bind it to an output and evaluate, or create it with create(shape).",
                )
            with _lock:
                array = self.array = allocate_zeros(self.owner, self.shape) if self.array is None else self.array
        return array

    def has_other_memory(self, memory: Array | DeviceArray) -> bool:
        """Whether an evaluation has given the tensor other memory than this, which is still bound somewhere."""
        current = self.array if self.device_array is None else self.device_array
        return current is not None and current is not memory

    def adopt(self, memory: Array | DeviceArray) -> None:
        """Takes an evaluation's output as its own memory."""
        self.require_open()
        self.shape = memory.shape
        self.array = memory if isinstance(memory, np.ndarray) else None
        self.device_array = None if isinstance(memory, np.ndarray) else memory

    def add(self, reference: MemoryBufferReference) -> None:
        """Tracks a reference to the memory for as long as anyone holds it."""
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
        """Releases the memory."""
        self.is_closed = True  # first: an open tensor without an array counts as a placeholder
        self.array = self.device_array = None

    def require_valid(self) -> None:
        """Raises IllegalCallError if a failed evaluation should have written the tensor."""
        if self.is_invalid:
            raise IllegalCallError(
                f"This {self.owner.__name__} is an output of an evaluation that failed or was stopped, so its data is "
                "invalid.",
                hint="Evaluate again, or use another tensor.",
            )

    def require_open(self) -> None:
        """Raises IllegalCallError if the tensor has been closed."""
        if self.is_closed:
            raise IllegalCallError(
                f"This {self.owner.__name__} has been closed.", hint="Keep it open while it is bound or read."
            )


def allocate_zeros(owner: type[Any], sizes: tuple[int, ...]) -> Array:
    """A new array of zeros, or of empty strings; InvalidArgumentError where it does not fit in memory."""
    try:
        return np.full(sizes, "", object) if owner.dtype == object else np.zeros(sizes, owner.dtype)
    except (ValueError, MemoryError) as error:
        raise InvalidArgumentError(f"A tensor of shape {sizes} does not fit in memory: {error}.") from error
