"""Stand-ins for a CUDA card: memory of the host that says it is the card's, and an engine that takes it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import onnxruntime

from winml_py import LearningModelDevice, Precision
from winml_py.core.base.arrays import DeviceArray, MemoryLocation
from winml_py.core.runtime.engine import EngineOptions, Explanation, PlacedNode
from winml_py.core.runtime.providers import cuda
from winml_py.core.runtime.providers.catalogue import UNLOCKED
from winml_py.core.runtime.providers.provider import ProviderDevice
from winml_py.core.runtime.request import CompileRequest

CUDA = cuda.CUDA.name
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
        self._inside = _Compiler(self)
        self.inputs: list[DeviceArray] = []


class _Compiler:
    def __init__(self, device: FakeCudaDevice) -> None:
        self.device = device

    def compile(self, request: CompileRequest) -> Any:
        return _Engine(self.device, request)

    def key(self, options: EngineOptions) -> Hashable:
        return id(self)

    def session_lock(self) -> AbstractContextManager[object]:
        return UNLOCKED


class _Engine:
    location = CARD
    explanation = Explanation(CUDA, Precision.FLOAT32, "a stand-in")

    run_once = None

    def __init__(self, fake: FakeCudaDevice, request: CompileRequest) -> None:
        self.fake, self.options = fake, EngineOptions(1)
        self.session = onnxruntime.InferenceSession(request.model, providers=["CPUExecutionProvider"])

    @property
    def device(self) -> Any:
        return self

    def upload(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        raise NotImplementedError

    def bind(self, lock: AbstractContextManager[object]) -> Any:
        return _Binding(self)

    def placement(self) -> list[PlacedNode]:
        return []

    def close(self) -> None:
        pass


class _Binding:
    def __init__(self, engine: _Engine) -> None:
        self.engine = engine
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.kept: set[str] = set()

    def set_input(self, name: str, value: Any) -> None:
        self.inputs[name] = value
        if isinstance(value, DeviceArray):
            self.engine.fake.inputs.append(value)

    def set_output(self, name: str, array: Any) -> None:
        self.outputs[name] = array
        self.kept.discard(name)

    def keep_output(self, name: str) -> None:
        self.outputs.pop(name, None)
        self.kept.add(name)

    def run(self, stop: Any = None) -> Mapping[str, Any]:
        feed = {n: v.to_numpy() if isinstance(v, DeviceArray) else v for n, v in self.inputs.items()}
        names = [output.name for output in self.engine.session.get_outputs()]
        fresh: dict[str, Any] = dict(zip(names, self.engine.session.run(names, feed), strict=True))
        for name, array in self.outputs.items():
            if array is not None:
                memory = array.owner.memory if isinstance(array, DeviceArray) else array
                memory[...] = fresh.pop(name)
        for name in self.kept:
            card = OnCard(fresh[name])
            pointer = card.memory.ctypes.data
            fresh[name] = DeviceArray(CARD, card.memory.shape, card.memory.dtype, card.get, pointer=pointer, owner=card)
        return fresh
