"""Sorting the arguments of a call into an operator's inputs and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.base.arrays import Array, DType
from ..core.base.messages import did_you_mean, type_name
from ..core.features.tensor import Tensor
from ..errors import InvalidArgumentError
from .signature import Parameter, Signature
from .value_types import TensorDesc, TensorSequence

_AS_THEY_ARE = (np.ndarray, Tensor, TensorDesc, TensorSequence, Mapping, type(None))

_NUMBERS: dict[type, DType] = {float: np.dtype(np.float32), int: np.dtype(np.int64), bool: np.dtype(bool)}
"""The types of Python numbers if no other input determines them."""


def arrange(
    signature: Signature, inputs: Sequence[Any], named: Mapping[str, object]
) -> tuple[list[Any], dict[str, Any]]:
    """Sorts arguments, by position and by name: one list, alone or by name, is all values of a variadic input.

    Returns:
        The inputs in the schema's order, None for an omitted one; and the attributes as passed.
    """
    is_list = len(inputs) == 1 and any(_is_list_for(first, inputs[0]) for first in signature.inputs[:1])
    values, attributes = list(inputs[0] if is_list else inputs), dict(named)
    for index, parameter in enumerate(signature.inputs):
        if parameter.name in attributes and parameter.name not in signature.attributes:
            _place(signature, values, index, attributes.pop(parameter.name))
    while values and values[-1] is None:
        values.pop()
    _require_input_count(signature, values)
    return _convert_values(signature, values), attributes


def are_plain(signature: Signature, inputs: Sequence[object], named: Mapping[str, object]) -> bool:
    """Whether arguments already are as `arrange` returns them: arrays by position, and attributes by name."""
    if not named.keys() <= signature.attributes.keys():
        return False
    return all(type(value) is np.ndarray and value.dtype.kind not in "UO" for value in inputs)


def require_complete(signature: Signature, values: Sequence[object], attributes: Mapping[str, object]) -> None:
    """Refuses a call with a missing input or attribute, or with an unknown one."""
    _require_input_count(signature, values)
    for index, parameter in enumerate(signature.inputs):
        is_missing = index >= len(values) or values[index] is None
        if is_missing and not (parameter.is_optional or parameter.is_variadic):
            ordered = (f"{each.name} (optional)" if each.is_optional else each.name for each in signature.inputs)
            raise InvalidArgumentError(
                f"{signature.name} needs the input {parameter.name}.",
                hint=f"Its inputs, in order: {', '.join(ordered)}.",
            )
    for name in attributes:
        if name not in signature.attributes:
            names = (*(parameter.name for parameter in signature.inputs), *signature.attributes)
            raise InvalidArgumentError(
                f"{signature.name} has neither an input nor an attribute {name!r} in opset {signature.opset}.",
                hint=did_you_mean(name, names),
            )
    for name, attribute in signature.attributes.items():
        if attribute.is_required and name not in attributes:
            raise InvalidArgumentError(
                f"{signature.name} needs the attribute {name}.", hint=f"Pass {name}=, of type {attribute.type.lower()}."
            )


def parameter_at(signature: Signature, index: int) -> Parameter:
    """The parameter of the input at this position: the last one, if it is variadic and the position is beyond."""
    return signature.inputs[min(index, len(signature.inputs) - 1)]


def _place(signature: Signature, values: list[Any], index: int, value: Any) -> None:
    name = signature.inputs[index].name
    if len(values) > index:
        raise InvalidArgumentError(f"{signature.name} got its input {name} twice.", hint="Pass it once.")
    values += [None] * (index - len(values))
    values += value if _is_list_for(signature.inputs[index], value) else [value]


def _is_list_for(parameter: Parameter, value: Any) -> bool:
    return parameter.is_variadic and isinstance(value, (list, tuple))


def _require_input_count(signature: Signature, values: Sequence[Any]) -> None:
    parameters = signature.inputs
    if len(values) > len(parameters) and not (parameters and parameters[-1].is_variadic):
        names = ", ".join(parameter.name for parameter in parameters) or "none"
        raise InvalidArgumentError(
            f"{signature.name} takes {len(parameters)} inputs, got {len(values)}.", hint=f"Its inputs: {names}."
        )


def _convert_values(signature: Signature, values: list[Any]) -> list[Any]:
    dtypes = {
        parameter_at(signature, index).type_name: value.dtype
        for index, value in enumerate(values)
        if isinstance(value, (np.ndarray, np.generic, Tensor))
    }
    return [_value(parameter_at(signature, index), value, dtypes) for index, value in enumerate(values)]


def _value(parameter: Parameter, value: object, dtypes: Mapping[str, DType]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
        return _texts(parameter, value)
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, (list, tuple)) and _is_sequence(parameter, value):
        return [_value(parameter, element, dtypes) for element in value]
    array = np.asarray(value)
    if not isinstance(value, np.generic) and array.dtype.kind in "biuf":
        kind = type(array.reshape(-1)[0].item()) if array.size else int
        dtype = dtypes[parameter.type_name] if parameter.type_name in dtypes else _NUMBERS[kind]
        with np.errstate(invalid="ignore", over="ignore"):
            converted = array.astype(dtype)
        # Floats are rounded, but must stay finite; other types hold a number exactly or not at all.
        is_kept = np.isfinite(converted) | ~np.isfinite(array) if dtype.kind == "f" else converted == array
        if not np.all(is_kept):
            raise InvalidArgumentError(
                f"The input {parameter.name} is {dtype}, which cannot hold {value!r}.",
                hint="Pass numbers within the range of that type, or arrays of another type.",
            )
        array = converted
    return _texts(parameter, array) if array.dtype.kind in "UO" else array


def _texts(parameter: Parameter, array: Array) -> Array:
    for element in array.flat:
        if not isinstance(element, (str, bytes)):
            raise InvalidArgumentError(
                f"The input {parameter.name} got an array of objects with {type_name(element)}.",
                hint="Pass an array of text or of numbers.",
            )
    return array.astype(object)


def _is_sequence(parameter: Parameter, value: Sequence[object]) -> bool:
    """Whether a list is a sequence of tensors or maps, rather than a tensor."""
    can_be = any("seq(" in kind for kind in parameter.types)
    must_be = can_be and not any(kind.startswith("tensor(") for kind in parameter.types)
    return must_be or (can_be and any(isinstance(element, _AS_THEY_ARE) for element in value))
