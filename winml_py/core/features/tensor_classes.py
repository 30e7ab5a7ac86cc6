"""The tensor classes, one for each element type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, Self

import numpy as np

from ...enums import TensorKind
from ...errors import (
    E_UNEXPECTED,
    INVALID_FUNCTION,
    IllegalCallError,
    InvalidArgumentError,
    InvalidBindingError,
    NotSupportedError,
)
from ..base.arguments import is_text
from ..base.arrays import Array, DType, as_unmasked_array
from ..base.messages import type_name
from .descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from .tensor import Tensor


class TensorFloat(Tensor, kind=TensorKind.FLOAT, dtype=np.float32):
    """A tensor of float32."""

    __slots__ = ()


class TensorFloat16Bit(Tensor, kind=TensorKind.FLOAT16, dtype=np.float16, view=np.float32):
    """A tensor of float16. Arrays and views are float32, rounded to the nearest even half on the way in.

    `to_numpy` and buffers give the halves themselves; `from_numpy` takes halves, sharing them, and float32, cast.
    """

    __slots__ = ()
    _exact_length = True
    _length_hresult = E_UNEXPECTED

    @classmethod
    def from_numpy(cls, array: Array, /) -> Self:
        """A tensor over an array of halves, or with a copy of an array of float32, rounded half to even."""
        elements = as_unmasked_array(array)
        if elements.dtype == np.float32:
            return cls.create_from_array(elements.shape, elements)
        return super().from_numpy(elements)


class TensorDouble(Tensor, kind=TensorKind.DOUBLE, dtype=np.float64):
    """A tensor of float64."""

    __slots__ = ()


class TensorInt8Bit(Tensor, kind=TensorKind.INT8, dtype=np.int8, view=np.uint8):
    """A tensor of int8. Arrays and views are uint8 of the same bits, because WinRT has no int8."""

    __slots__ = ()


class TensorUInt8Bit(Tensor, kind=TensorKind.UINT8, dtype=np.uint8):
    """A tensor of uint8."""

    __slots__ = ()


class TensorInt16Bit(Tensor, kind=TensorKind.INT16, dtype=np.int16):
    """A tensor of int16."""

    __slots__ = ()


class TensorUInt16Bit(Tensor, kind=TensorKind.UINT16, dtype=np.uint16):
    """A tensor of uint16."""

    __slots__ = ()


class TensorInt32Bit(Tensor, kind=TensorKind.INT32, dtype=np.int32):
    """A tensor of int32."""

    __slots__ = ()


class TensorUInt32Bit(Tensor, kind=TensorKind.UINT32, dtype=np.uint32):
    """A tensor of uint32."""

    __slots__ = ()


class TensorInt64Bit(Tensor, kind=TensorKind.INT64, dtype=np.int64):
    """A tensor of int64."""

    __slots__ = ()


class TensorUInt64Bit(Tensor, kind=TensorKind.UINT64, dtype=np.uint64):
    """A tensor of uint64."""

    __slots__ = ()


class TensorBoolean(Tensor, kind=TensorKind.BOOLEAN, dtype=np.bool_):
    """A tensor of booleans, one byte each."""

    __slots__ = ()


class TensorString(Tensor, kind=TensorKind.STRING, dtype=object):
    """A tensor of strings, which share no block of memory: they are copied when bound, and there is no buffer."""

    __slots__ = ()
    _length_hresult = E_UNEXPECTED

    @classmethod
    def create_from_buffer(cls, shape: Iterable[int], buffer: object, /) -> NoReturn:
        """Refused: strings do not share one block of memory."""
        raise IllegalCallError("TensorString cannot be created from IBuffers!", hint="Use create_from_array.")

    @classmethod
    def from_numpy(cls, array: Array, /) -> Self:
        """A tensor with a copy of an array of strings, of dtype `object` or `str`."""
        elements = as_unmasked_array(array)
        return cls.create_from_array(elements.shape, elements)

    @classmethod
    def _elements(cls, data: object) -> Array:
        elements = np.array(data, dtype=object).reshape(-1)
        for element in elements:
            if not isinstance(element, str):
                hint = (
                    "Decode it: element.decode()." if isinstance(element, bytes) else "Convert numbers: str(element)."
                )
                message = f"TensorString takes str elements, not {type_name(element)}: {element!r}."
                raise InvalidArgumentError(message, hint=hint)
            if not is_text(element):
                raise InvalidArgumentError(
                    f"TensorString takes text that UTF-8 can encode, not {element!r}.",
                    hint='For a file name, use os.fsencode(name).decode(errors="replace").',
                )
        return elements

    def get_buffer(self) -> memoryview:
        """Refused: strings do not share one block of memory."""
        self._private_state.require_open()
        raise IllegalCallError(
            "A TensorString has no buffer.", hint="Use to_numpy() or get_as_vector_view().", hresult=INVALID_FUNCTION
        )


class _TensorClasses(dict[TensorKind, type[Tensor]]):
    def __missing__(self, kind: TensorKind) -> type[Tensor]:
        raise NotSupportedError(f"No tensor class exists for {kind.name}.", hint="Add a Cast to the model.")


TENSOR_CLASSES = _TensorClasses({cls.tensor_kind: cls for cls in Tensor.__subclasses__()})
"""The class for each element type; kinds that Windows ML does not run have no class."""

FLOAT_KINDS = frozenset(kind for kind, cls in TENSOR_CLASSES.items() if cls.dtype.kind == "f")
"""Those of float16, float32 and float64."""

CLASSES_BY_DTYPE: dict[DType, type[Tensor]] = {cls.dtype: cls for cls in Tensor.__subclasses__()}
"""The class for each dtype in memory."""


# Casting float32 values for float16 features. Like Windows ML, we cast only picture tensors.


def needs_cast(value: Tensor, descriptor: FeatureDescriptor) -> bool:
    """Whether a tensor is float32, and the feature a float16 tensor with the shape of pictures."""
    if not isinstance(value, TensorFloat) or not isinstance(descriptor, ShapedDescriptor):
        return False
    is_picture = len(descriptor.shape) == 4 and descriptor.shape[1] in (1, 3)
    is_picture = is_picture or isinstance(descriptor, ImageFeatureDescriptor)
    return is_picture and descriptor.tensor_kind is TensorKind.FLOAT16


def require_half_range(numbers: Array, descriptor: FeatureDescriptor) -> None:
    """Refuses float32 numbers that would become infinite in float16: those that round to 65536.

    Raises:
        InvalidBindingError: a number outside the range of float16.
    """
    sizes = np.abs(numbers)
    lost = (sizes >= 65520) & np.isfinite(numbers)
    if lost.any():
        worst = numbers[lost][sizes[lost].argmax()]
        raise InvalidBindingError(
            f"The model variable {descriptor.name} is float16, but {worst:g} is outside its range of -65504 to 65504.",
            hint="Scale the values to the range that the model expects.",
        )
