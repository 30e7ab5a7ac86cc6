"""Bindings of a device, tested with the CPU's memory in the place of the device's, which captures no graph."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from helpers.models import data, tensor, unary
from winml_py import ClosedError, EvaluationError, NotSupportedError, SizeMismatchError
from winml_py.core.base.arrays import DeviceArray, MemoryLocation
from winml_py.core.runtime.engine import EngineOptions
from winml_py.core.runtime.ort import device_binding
from winml_py.core.runtime.ort.device_binding import CapturedGraph, DeviceIoBinding, require_capturable
from winml_py.core.runtime.ort.device_engine import OrtDeviceEngine
from winml_py.core.runtime.ort.device_memory import DeviceMemory
from winml_py.core.runtime.providers import catalogue
from winml_py.core.runtime.providers.provider import Provider, ProviderDevice, Target
from winml_py.core.runtime.runs import Bound, StaysOnDevice

HERE = MemoryLocation("cpu", 0)


class Lock:
    """A lock that knows how often it was taken."""

    def __init__(self) -> None:
        self.lock, self.times = threading.Lock(), 0

    def __enter__(self) -> None:
        self.lock.acquire()
        self.times += 1

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def made(
    monkeypatch: pytest.MonkeyPatch,
    model: bytes,
    on_host: tuple[str, ...] = (),
    captures: bool = False,
) -> tuple[DeviceIoBinding, Bound, Lock]:
    monkeypatch.setattr(device_binding, "find_host_inputs", lambda _: frozenset(on_host))
    provider: Any = SimpleNamespace(memory="cpu", has_addresses=True)
    lock = Lock()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with lock:
        binding = DeviceIoBinding(session, DeviceMemory(provider, 0), lock, captures)
    return binding, Bound(lock=lock), lock


def two() -> bytes:
    nodes = [helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Add", ["a", "b"], ["z"])]
    return data(nodes, [tensor("a", [2]), tensor("b", [2])], [tensor("y", [2]), tensor("z", [2])])


A, B = np.float32([1, 2]), np.float32([10, 20])


@pytest.mark.parametrize("on_host", [(), ("a",), ("a", "b")])
def test_arrays_of_the_host_go_up_and_come_down(monkeypatch: pytest.MonkeyPatch, on_host: tuple[str, ...]) -> None:
    binding, bound, lock = made(monkeypatch, two(), on_host)
    a, target = A.copy(), np.zeros(2, np.float32)
    bound.set_input("a", a)
    bound.set_input("b", B)
    fresh = binding.run(bound)
    assert {name: value.tolist() for name, value in fresh.items()} == {"y": [-1, -2], "z": [11, 22]}
    a[:] = 5  # by reference
    bound.set_output("z", target)
    again = binding.run(bound)
    assert {name: value.tolist() for name, value in again.items()} == {"y": [-5, -5]}
    assert target.tolist() == [15, 25]
    assert fresh["y"].tolist() == [-1, -2]  # a copy
    bound.set_input("a", A)  # of one shape: the copy there is written again
    assert binding.run(bound)["y"].tolist() == [-1, -2]
    assert target.tolist() == [11, 22]
    bound.set_output("z", None)
    assert set(binding.run(bound)) == {"y", "z"}
    assert lock.times == 5  # for the binding, and for each run
    assert not lock.lock.locked()


def test_what_stays_there_is_written_again_while_it_is_bound_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    binding, bound, _ = made(monkeypatch, two())
    a = A.copy()
    bound.set_input("a", a)
    bound.set_input("b", B)
    bound.set_output("y", StaysOnDevice())
    kept = binding.run(bound)["y"]
    assert isinstance(kept, DeviceArray)
    assert (kept.location, kept.shape, kept.dtype) == (HERE, (2,), np.float32)
    assert kept.to_numpy().tolist() == [-1, -2]
    a[:] = 7
    assert binding.run(bound)["y"] is kept
    assert kept.to_numpy().tolist() == [-7, -7]
    bound.set_output("y", StaysOnDevice())  # bound anew: other memory
    other = binding.run(bound)["y"]
    assert other.pointer != kept.pointer
    bound.set_output("y", None)
    a[:] = 8
    assert binding.run(bound)["y"].tolist() == [-8, -8]
    assert (kept.to_numpy().tolist(), other.to_numpy().tolist()) == ([-7, -7], [-7, -7])


def test_memory_there_is_bound_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = A.copy(), np.zeros(2, np.float32)
    there = [
        DeviceArray(HERE, (2,), np.dtype(np.float32), memory.copy, pointer=memory.ctypes.data, owner=memory)
        for memory in (source, target)
    ]
    for on_host in ((), ("a", "b")):
        binding, bound, _ = made(monkeypatch, two(), on_host)
        bound.set_input("a", there[0])
        bound.set_input("b", B)
        bound.set_output("z", there[1])
        assert set(binding.run(bound)) == {"y"}
        assert target.tolist() == [11, 22]
        source[:] = 3
        assert binding.run(bound)["y"].tolist() == [-3, -3]
        assert target.tolist() == [13, 23]
        source[:] = A
        bound.set_output("z", None)
        target[:] = 0
        assert binding.run(bound)["z"].tolist() == [11, 22]
        assert target.tolist() == [0, 0]


def test_an_output_of_free_size_gets_new_memory_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    binding, bound, _ = made(monkeypatch, unary("Neg", ["n"]))
    bound.set_input("x", A)
    bound.set_output("y", StaysOnDevice())
    first, second = binding.run(bound)["y"], binding.run(bound)["y"]
    assert first.pointer != second.pointer
    bound.set_input("x", np.float32([1, 2, 3]))
    assert binding.run(bound)["y"].to_numpy().tolist() == [-1, -2, -3]
    assert first.to_numpy().tolist() == second.to_numpy().tolist() == [-1, -2]
    target = np.zeros(2, np.float32)
    bound.set_output("y", target)
    with pytest.raises(SizeMismatchError, match=r"y was bound to memory of shape \(2,\), but has the shape \(3,\)"):
        binding.run(bound)
    bound.set_input("x", A)
    assert binding.run(bound) == {}
    assert target.tolist() == [-1, -2]


def test_a_wrong_shape_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    binding, bound, _ = made(monkeypatch, two())
    bound.set_input("b", B)
    bound.set_input("a", A)
    bound.set_output("y", np.zeros(3, np.float32))
    with pytest.raises(SizeMismatchError, match=r"y was bound to memory of shape \(3,\), but has the shape \(2,\)"):
        binding.run(bound)
    bound.set_output("y", None)
    bound.set_input("a", np.zeros(0, np.float32))
    with pytest.raises(SizeMismatchError, match="The input a was compiled for different dimensions"):
        binding.run(bound)
    bound.set_input("a", A)
    assert binding.run(bound)["y"].tolist() == [-1, -2]


def test_closed_and_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    binding, bound, _ = made(monkeypatch, two())
    for name, value in (("a", A), ("b", B)):
        bound.set_input(name, value)
    assert set(binding.run(bound)) == {"y", "z"}
    for _ in range(2):
        binding.close()
        with pytest.raises(ClosedError):
            binding.run(bound)


def test_a_binding_that_nobody_holds_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[Any] = []
    gc.collect()
    monkeypatch.setattr(CapturedGraph, "forget", lambda _, session: forgotten.append(session))
    binding, _, lock = made(monkeypatch, two(), captures=True)
    before = lock.times
    del binding
    gc.collect()
    assert (len(forgotten), lock.times) == (1, before + 1)


def test_the_runtimes_errors_become_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    binding, bound, lock = made(monkeypatch, unary("Neg", [2]))
    bound.set_input("x", np.zeros(3, np.float32))
    with pytest.raises(SizeMismatchError, match="The input x was compiled for different dimensions"):
        binding.run(bound)
    assert not lock.lock.locked()


# Graph capture


class Capturing:
    """A session that captures and replays: it notes the ids of graphs that runs are told, and that are released."""

    def __init__(self, model: bytes) -> None:
        self._real = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.ids: list[int] = []
        self.released: list[int] = []
        self.failure: Exception | None = None

    def run_with_iobinding(self, native: Any, options: onnxruntime.RunOptions) -> None:
        self.ids.append(int(options.get_run_config_entry("gpu_graph_id")))
        if self.failure is not None:
            raise self.failure
        self._real.run_with_iobinding(native)

    def release_captured_graph(self, number: int) -> None:
        self.released.append(number)

    def get_input_memory_infos(self) -> list[Any]:
        return [SimpleNamespace(name="Device") for _ in self._real.get_inputs()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def capturing(monkeypatch: pytest.MonkeyPatch) -> tuple[OrtDeviceEngine, Capturing]:
    """An engine that captures graphs, and its session."""
    monkeypatch.setitem(catalogue.PROVIDERS, "Abacus", Provider("Abacus", memory="cpu", has_addresses=True))
    found = ProviderDevice("Abacus", "package", "", 0, "gpu", "Abacus 9000", "ACME")
    session: Any = Capturing(two())
    return OrtDeviceEngine(session, EngineOptions(1), Target(found), found, True), session


def run(engine: OrtDeviceEngine, bound: Bound, a: Any) -> list[float]:
    bound.set_input("a", a)
    bound.set_input("b", B)
    return list(engine.run(bound)["y"])


def test_runs_on_arrays_of_the_host_share_a_graph(capturing: tuple[OrtDeviceEngine, Capturing]) -> None:
    engine, session = capturing
    target = np.zeros(2, np.float32)
    for step in range(4):
        bound = Bound(lock=threading.RLock())
        if step % 2:
            bound.set_output("z", target)
        assert run(engine, bound, np.full(2, step, np.float32)) == [-step] * 2
    assert target.tolist() == [13, 23]
    assert session.ids == [-1, *[session.ids[1]] * 3]
    assert session.ids[1] > 0
    session.failure = RuntimeError("the graph is broken")
    with pytest.raises(EvaluationError, match="the graph is broken"):
        run(engine, Bound(lock=threading.RLock()), A)
    assert session.released == [session.ids[1]]
    session.failure = None
    assert run(engine, Bound(lock=threading.RLock()), A) == [-1, -2]
    assert session.ids[-1] == -1
    engine.close()
    with pytest.raises(ClosedError):
        run(engine, Bound(lock=threading.RLock()), A)


def test_memory_of_the_device_has_a_graph_of_its_own(capturing: tuple[OrtDeviceEngine, Capturing]) -> None:
    engine, session = capturing

    def there(memory: Any) -> DeviceArray:
        return DeviceArray(HERE, (2,), np.dtype(np.float32), memory.copy, pointer=memory.ctypes.data, owner=memory)

    bound, memory, other = Bound(lock=threading.RLock()), A.copy(), B.copy()
    for step in range(3):
        memory[:] = step
        assert run(engine, bound, there(memory)) == [-step] * 2  # another object, and the same address
    captured = session.ids[1]
    assert session.ids == [-1, captured, captured]
    for _ in range(2):
        assert run(engine, bound, there(other)) == [-10, -20]
    assert session.released == [captured]
    assert session.ids[3] == -1
    assert session.ids[4] not in (-1, captured)
    engine.close()
    assert session.released == [captured, session.ids[4]]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (unary("Neg", ["n"]), "all inputs and outputs are tensors of numbers with fixed shapes"),
        (unary("Neg", [2]), "the provider reads every input on the device"),
    ],
)
def test_what_cannot_be_captured(model: bytes, words: str) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with pytest.raises(NotSupportedError, match=f"graph capture requires that {words}"):
        require_capturable(session)


def test_a_close_while_the_device_works_loses_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the run: what is bound gets its numbers, and not those of the run before."""
    binding, bound, _ = made(monkeypatch, two())
    target, a = np.zeros(2, np.float32), A.copy()
    bound.set_input("a", a)
    bound.set_input("b", B)
    bound.set_output("z", target)
    binding.run(bound)
    assert target.tolist() == [11, 22]
    session = binding._native[0]  # type: ignore[index]
    closing = threading.Thread(target=binding.close)

    def run_and_close(*arguments: Any) -> None:
        closing.start()
        closing.join(0.1)
        onnxruntime.InferenceSession.run_with_iobinding(session, *arguments)

    monkeypatch.setattr(session, "run_with_iobinding", run_and_close)
    a[:] = 5
    fresh = binding.run(bound)
    closing.join()
    assert {name: value.tolist() for name, value in fresh.items()} == {"y": [-5, -5]}
    assert target.tolist() == [15, 25]
    with pytest.raises(ClosedError):
        binding.run(bound)
