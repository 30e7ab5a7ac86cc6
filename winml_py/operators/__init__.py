"""Single operators: any ONNX operator as a function on arrays and tensors, on any device.

`operators.Conv(x, w, strides=[2, 2])` makes a model of one node, compiles it for the types, shapes and attributes of
its arguments, runs it, and caches it for the next call of the same kind. The cache holds 128 operators; the least
recently used ones are disposed of. All functions may be called from any thread.

Inputs are passed by position or by the schema's names; None omits an optional one. They are arrays, tensors, Python
numbers and lists (which take the type of the inputs that must have the same one), lists of arrays for sequences, and
dicts for maps. An operator of any number of inputs also takes them as one list: `Concat([x, y], axis=0)`. Attributes
are passed by name: numbers, strings, lists, arrays for tensors, and `onnx.GraphProto`.

The outputs are arrays; or tensors, if an input is one. Tensors in a device's memory give tensors there.

These parameters mean the same for every operator:

* `device`: where it runs; the CPU by default.
* `opset`: the version of the operators; by default 23, or the first that has the operator.
* `domain`: "" is ONNX's own; by default an operator is looked for there, in `ai.onnx.ml`, and in `com.microsoft`.
* `outputs`: how many outputs; by default those that the operator always has. Several are returned as a tuple.

Example:
    >>> import numpy as np
    >>> from winml_py import operators
    >>> x = np.array([[1, -2], [3, 4]], np.float32)
    >>> operators.Relu(x).tolist()
    [[1.0, 0.0], [3.0, 4.0]]
    >>> operators.Clip(x, max=2).tolist()
    [[1.0, -2.0], [2.0, 2.0]]
    >>> values, indices = operators.TopK(x, [1], axis=1)
    >>> values.tolist(), indices.tolist()
    ([[1.0], [4.0]], [[0], [1]])
"""

from __future__ import annotations

from .node import TensorDesc, TensorSequence
from .operator import CompiledOperator, Operator, clear_cache, compile  # noqa: A004 - read as operators.compile

__all__ = ["CompiledOperator", "Operator", "TensorDesc", "TensorSequence", "clear_cache", "compile"]


def __getattr__(name: str) -> Operator:
    from ..errors import InvalidArgumentError

    try:
        operator = Operator(name)
    except InvalidArgumentError as error:
        raise AttributeError(str(error), name=name, obj=None) from None
    globals()[name] = operator
    return operator


def __dir__() -> list[str]:
    from .schemas import list_operator_names

    return [*__all__, *list_operator_names()]
