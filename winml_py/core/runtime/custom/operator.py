"""CustomOperator: a Python function that implements an operator; and all custom operators of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....errors import InvalidArgumentError, ModelNotFoundError
from ...base.arguments import is_text, require_whole_number
from ...base.arrays import DType
from ...base.messages import type_name

if TYPE_CHECKING:
    import onnx

MAX_RANK = 64


class OperatorOutput(NamedTuple):
    """The type of an operator's output.

    Attributes:
        dtype: the element type: numpy's, or a `TensorKind`; `str` or `object` for strings.
        rank: the number of dimensions; None if it varies.
    """

    dtype: Any
    rank: int | None = None


@dataclass(frozen=True)
class CustomOperator:
    """A custom operator: a Python function, for `LearningModel.load(path, operators=[...])`.

    Every node of the model with this name and domain calls the function, even if ONNX has an operator of the name.
    The function takes the node's inputs by position and its attributes by name. Tensors are passed as read-only arrays,
    sequences as lists, maps as dicts, and omitted inputs as None. It returns an array, or a tuple of arrays for several
    outputs. Several threads may call the function at once.

    An error in the function ends the evaluation with an `EvaluationError`, whose `__cause__` it is.

    Args:
        function: computes the outputs.
        name: the operator's name, as in the nodes' `op_type`.
        domain: the operator's domain; "" is ONNX's.
        outputs: the type and the rank of each output: `OperatorOutput`, or a pair.

    Raises:
        InvalidArgumentError: an argument of another kind.

    Example:
        >>> import numpy as np
        >>> from onnx import TensorProto, helper
        >>> from winml_py import CustomOperator, LearningModel, LearningModelSession
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
        >>> node = helper.make_node("Scale", ["x"], ["y"], domain="my", factor=3.0)
        >>> opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        >>> proto = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets, ir_version=8)
        >>> scale = CustomOperator(lambda x, factor: x * np.float32(factor), "Scale", "my", outputs=[(np.float32, 1)])
        >>> model = LearningModel.load(proto.SerializeToString(), operators=[scale])
        >>> result = LearningModelSession(model).evaluate_features({"x": np.float32([1, 2])})
        >>> result.outputs["y"].to_numpy().tolist()
        [3.0, 6.0]
    """

    function: Callable[..., Any]
    name: str
    domain: str = ""
    outputs: Sequence[OperatorOutput | tuple[Any, int | None]] = ()

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidArgumentError(
                f"Expected a function for the operator, got {self.function!r}.",
                hint='Call CustomOperator(function, "Name", "my.domain", outputs=[(np.float32, 2)]).',
            )
        if not is_text(self.name) or not self.name or not is_text(self.domain):
            raise InvalidArgumentError(
                f"Expected an operator's name and domain as str, got {self.name!r} and {self.domain!r}.",
                hint='Call CustomOperator(function, "Name", "my.domain", outputs=[(np.float32, 2)]).',
            )
        if not self.outputs or isinstance(self.outputs, str):
            raise InvalidArgumentError(
                f"The operator {self.name} declares no outputs.", hint="Pass type and rank: outputs=[(np.float32, 2)]."
            )
        object.__setattr__(self, "outputs", tuple(map(self._check_output, self.outputs)))
        object.__setattr__(self, "domain", "" if self.domain == "ai.onnx" else self.domain)

    def _check_output(self, output: OperatorOutput | tuple[Any, int | None]) -> OperatorOutput:
        try:
            dtype, rank = output
            numpy_dtype = _convert_dtype(dtype)
        except (TypeError, ValueError, KeyError):
            raise InvalidArgumentError(
                f"An output of operator {self.name} cannot be {output!r}.", hint="Pass type and rank: (np.float32, 2)."
            ) from None
        if rank is not None:
            require_whole_number(rank, f"The rank of an output of {self.name}", most=MAX_RANK)
        return OperatorOutput(numpy_dtype, rank)

    @property
    def key(self) -> tuple[str, str]:
        """The domain and the name, which nodes refer to."""
        return self.domain, self.name

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}:{self.name}"


def _convert_dtype(kind: Any) -> DType:
    from onnx import helper

    dtype = helper.tensor_dtype_to_np_dtype(int(kind)) if isinstance(kind, IntEnum) else np.dtype(kind)
    helper.np_dtype_to_tensor_dtype(dtype if dtype.kind not in "OU" else np.dtype(object))  # refuses what ONNX lacks
    return np.dtype(object) if dtype.kind in "OU" else np.dtype(dtype)


def make_declared_types(operator: CustomOperator, outputs: Sequence[str]) -> dict[str, onnx.TypeProto]:
    """The types that an operator declares for the named outputs of a node.

    Args:
        operator: has at least as many outputs as the node.
        outputs: the names of the node's outputs; "" for an omitted one.
    """
    from onnx import helper

    types = {}
    for name, (dtype, rank) in zip(outputs, operator.outputs, strict=False):
        shape = None if rank is None else [None] * rank
        types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), shape)
    return {name: kind for name, kind in types.items() if name}


Operators = Iterable[CustomOperator | str | os.PathLike[str]]
"""Python functions, and the paths of shared libraries that ONNX Runtime loads."""


class ModelOperators(NamedTuple):
    """Operators by kind: Python functions, and the absolute paths of shared libraries."""

    functions: tuple[CustomOperator, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def given(self) -> Operators:
        """All of them, in the form that `LearningModel.load` takes."""
        return *self.functions, *self.libraries

    @classmethod
    def from_list(cls, operators: Operators) -> ModelOperators:
        """Sorts operators by kind.

        Raises:
            InvalidArgumentError: something else, or two functions for one operator.
            ModelNotFoundError: there is no such library.
        """
        if isinstance(operators, (str, bytes, CustomOperator)) or not isinstance(operators, Iterable):
            raise InvalidArgumentError(
                f"Expected a list of operators, got {type_name(operators)}.", hint="Pass operators=[operator]."
            )
        functions: dict[str, CustomOperator] = {}
        libraries = []
        for operator in operators:
            if isinstance(operator, CustomOperator):
                if str(operator) in functions:
                    raise InvalidArgumentError(f"Two functions were passed for {operator}.", hint="Pass only one.")
                functions[str(operator)] = operator
            elif isinstance(operator, (str, os.PathLike)):
                libraries.append(os.path.abspath(os.fsdecode(operator)))
                if not os.path.isfile(libraries[-1]):
                    raise ModelNotFoundError(
                        f"The library {libraries[-1]} does not exist.", hint="Pass the path to a shared library."
                    )
            else:
                raise InvalidArgumentError(
                    f"Expected a CustomOperator or the path to a shared library, got {type_name(operator)}.",
                    hint="Call CustomOperator(function, name, domain, outputs=[...]).",
                )
        return cls(tuple(functions.values()), tuple(libraries))
