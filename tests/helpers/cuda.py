"""Stand-ins for a CUDA card: memory of the host that says it is the card's, and an engine that takes it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import onnxruntime

from winml_py import LearningModelDevice, Precision
from winml_py.core.base.arrays import DeviceArray, MemoryLocation
from winml_py.core.runtime.engine import AssignedNode, EngineOptions, Explanation
from winml_py.core.runtime.providers.catalogue import CUDA
from winml_py.core.runtime.providers.provider import ProviderDevice
from winml_py.core.runtime.request import CompileRequest
from winml_py.core.runtime.runs import UNLOCKED, Bound, StaysOnDevice

CUDA = CUDA.name
CARD = MemoryLocation("cuda")
H200 = ProviderDevice(CUDA, "onnxruntime", "", 1, "gpu", "NVIDIA H200", "NVIDIA", float16=True, is_discrete=True)


class OnCard:
    """As a CuPy array shows itself."""

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory = memory

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        strides = None if self.memory.flags.c_contiguous else self.memory.strides
        data = (self.memory.ctypes.data, False)
        return {"shape": self.memory.shape, "typestr": self.memory.dtype.str, "data": data, "strides": strides}

    def __setitem__(self, where: Any, value: Any) -> None:
        self.memory[where] = value

    def get(self) -> np.ndarray[Any, Any]:
        return self.memory.copy()


class FakeCudaDevice(LearningModelDevice):
    """A device whose engine computes on the CPU what it is given on the card."""

    def __init__(self) -> None:
        super().__init__()
        self._device = H200
        self._private_state = _Compiler(self)
        self.inputs: list[DeviceArray] = []


class _Compiler:
    def __init__(self, device: FakeCudaDevice) -> None:
        self.device = device

    def compile(self, request: CompileRequest) -> Any:
        return _Engine(self.device, request)

    def make_key(self, options: EngineOptions) -> Hashable:
        return id(self)

    def make_session_lock(self) -> AbstractContextManager[object]:
        return UNLOCKED


class _Engine:
    location = CARD

    def __init__(self, fake: FakeCudaDevice, request: CompileRequest) -> None:
        self.fake, self.options = fake, EngineOptions(1)
        self.session = onnxruntime.InferenceSession(request.model, providers=["CPUExecutionProvider"])
        is_half = any(end.type == "tensor(float16)" for end in self.session.get_inputs())
        self.explanation = Explanation(CUDA, Precision.FLOAT16 if is_half else Precision.FLOAT32, "a substitute")

    def upload(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        raise NotImplementedError

    def run(self, bound: Bound, stop: Any = None) -> Mapping[str, Any]:
        self.fake.inputs += [value for value in bound.inputs.values() if isinstance(value, DeviceArray)]
        feed = {n: v.to_numpy() if isinstance(v, DeviceArray) else v for n, v in bound.inputs.items()}
        names = [output.name for output in self.session.get_outputs()]
        fresh: dict[str, Any] = dict(zip(names, self.session.run(names, feed), strict=True))
        for name, array in bound.outputs.items():
            if isinstance(array, StaysOnDevice):
                card = OnCard(fresh[name])
                memory = card.memory
                pointer = memory.ctypes.data
                fresh[name] = DeviceArray(CARD, memory.shape, memory.dtype, card.get, pointer=pointer, owner=card)
            else:
                memory = array.owner.memory if isinstance(array, DeviceArray) else array
                memory[...] = fresh.pop(name)
        return fresh

    def list_assigned_nodes(self) -> list[AssignedNode]:
        return []

    def close(self) -> None:
        pass
