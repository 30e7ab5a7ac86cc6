"""The `onnx.backend` interface over load, bind and evaluate.

Every run uses `LearningModel`, `LearningModelSession` and `LearningModelBinding`, so that ONNX's conformance suite, and
every other program that takes a backend, tests them.

Example:
    >>> import numpy as np, onnx
    >>> from winml_py import backend
    >>> model = onnx.load("models/digits.onnx")
    >>> backend.run_model(model, [np.zeros((1, 1, 28, 28), np.float32)])[0].shape
    (1, 10)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ._inputs.model import evaluate_by
from .core.model.model import LearningModel
from .core.session.session import LearningModelSession

__all__ = ["WinMLBackend", "WinMLBackendRep", "prepare", "run_model", "run_node", "supports_device"]


class WinMLBackendRep(BackendRep):
    """A compiled model, ready to run."""

    def __init__(self, session: LearningModelSession) -> None:
        """Use `prepare`."""
        self._session = session

    def run(self, inputs: object, **_: object) -> tuple[Any, ...]:
        """Evaluates the model.

        Args:
            inputs: a mapping from names, a sequence in the order of the model's inputs, or a single array.

        Returns:
            Arrays, lists and dicts in the order of the outputs, as a named tuple.
        """
        features = self._session.model.input_features
        if not isinstance(inputs, Mapping):
            values = list(inputs) if isinstance(inputs, Sequence) else [inputs]
            inputs = {feature.name: value for feature, value in zip(features, values, strict=False)}
        # ONNX's backend has no pictures, and its numbers may be Python's
        numbers = (np.generic, int, float)
        arrays = {name: np.asarray(value) if isinstance(value, numbers) else value for name, value in inputs.items()}
        outputs = evaluate_by(self._session, arrays)
        result: tuple[Any, ...] = namedtupledict("Outputs", list(outputs))(*outputs.values())
        return result


class WinMLBackend(Backend):
    """The backend's functions; the module has them too. `run_model` prepares a model and runs it once."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **_: Any) -> WinMLBackendRep:
        """Loads and compiles a model: a ModelProto, bytes, or a path."""
        return WinMLBackendRep(LearningModelSession(LearningModel.load(model)))

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: object = None, **options: Any
    ) -> tuple[Any, ...]:
        """Runs one node of ai.onnx, of opset 21 or the option `opset`, as a model of inputs like `inputs`."""
        names = [name for name in node.input if name]
        feeds = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
        arrays = {name: np.asarray(value) for name, value in feeds.items()}
        ends = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in arrays.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", ends, outputs)
        opsets = [helper.make_opsetid("", options.pop("opset", 21))]
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, ir_version=10, opset_imports=opsets))
        return cls.run_model(model, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether sessions can be compiled for it: the CPU."""
        return device.startswith("CPU")


prepare, run_model = WinMLBackend.prepare, WinMLBackend.run_model
run_node, supports_device = WinMLBackend.run_node, WinMLBackend.supports_device
