"""Bindings of a device, tested with the CPU's memory in the place of the device's, and graphs that nobody records."""

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
from winml_py import ClosedError, NotSupportedError, SizeMismatchError
from winml_py.core.base.arrays import DeviceArray, MemoryLocation
from winml_py.core.runtime.ort import device_binding
from winml_py.core.runtime.ort.device_binding import DeviceBinding
from winml_py.core.runtime.ort.device_memory import DeviceMemory, RecordedGraph, Recording
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
    monkeypatch: pytest.MonkeyPatch, model: bytes, on_host: tuple[str, ...] = (), waits_unlocked: bool = False
) -> tuple[DeviceBinding, Bound, Lock]:
    monkeypatch.setattr(device_binding, "host_inputs", lambda _: frozenset(on_host))
    provider: Any = SimpleNamespace(memory="cpu", has_addresses=True, waits_unlocked=waits_unlocked)
    lock = Lock()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    with lock:
        binding = DeviceBinding(session, DeviceMemory(provider, 0), lock, Recording.NONE)
    return binding, Bound(lock=lock), lock


def two() -> bytes:
    nodes = [helper.make_node("Neg", ["a"], ["y"]), helper.make_node("Add", ["a", "b"], ["z"])]
    return data(nodes, [tensor("a", [2]), tensor("b", [2])], [tensor("y", [2]), tensor("z", [2])])


A, B = np.float32([1, 2]), np.float32([10, 20])


@pytest.mark.parametrize("on_host", [(), ("a",), ("a", "b")])
@pytest.mark.parametrize("waits_unlocked", [False, True])
def test_arrays_of_the_host_go_up_and_come_down(
    monkeypatch: pytest.MonkeyPatch, on_host: tuple[str, ...], waits_unlocked: bool
) -> None:
    binding, bound, lock = made(monkeypatch, two(), on_host, waits_unlocked)
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
    assert lock.times > 8
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
    bound.set_input("a", np.zeros(0, np.float32))
    with pytest.raises(SizeMismatchError, match=r"An array of shape \(0,\) has no elements"):
        binding.run(bound)
    bound.set_input("a", A)
    bound.set_output("y", None)
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
    monkeypatch.setattr(RecordedGraph, "forget", lambda _, session: forgotten.append(session))
    binding, _, lock = made(monkeypatch, two())
    before = lock.times
    del binding
    gc.collect()
    assert (len(forgotten), lock.times) == (1, before + 1)


def test_the_runtimes_errors_become_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    binding, bound, lock = made(monkeypatch, unary("Neg", [2]))
    bound.set_input("x", np.zeros(3, np.float32))
    with pytest.raises(SizeMismatchError, match="The input x was compiled for other dimensions"):
        binding.run(bound)
    assert not lock.lock.locked()


# Recorded graphs


class Options:
    """What a run is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def add_run_config_entry(self, key: str, value: str) -> None:
        self.told.append((key, value))


def prepared(graph: RecordedGraph) -> str | None:
    options: Any = Options()
    graph.prepare(options)
    assert [key for key, _ in options.told] == ["gpu_graph_id"] * len(options.told)
    return options.told[0][1] if options.told else None


def there(pointer: int | None) -> DeviceArray:
    return DeviceArray(HERE, (2,), np.dtype(np.float32), A.copy, pointer=pointer)


def test_the_second_run_is_recorded() -> None:
    released: list[int] = []
    session: Any = SimpleNamespace(release_captured_graph=released.append)
    assert prepared(RecordedGraph(Recording.NONE)) is None
    first, second = RecordedGraph(Recording.POSSIBLE), RecordedGraph(Recording.POSSIBLE)
    assert prepared(first) == "-1"
    number = prepared(first)
    assert number is not None
    assert int(number) > 0
    assert prepared(first) == number
    assert [prepared(second), prepared(second) == number] == ["-1", False]
    first.forget(session)
    assert released == [int(number)]
    first.forget(session)
    assert released == [int(number)]  # once
    assert [prepared(first), prepared(first) == number] == ["-1", False]


@pytest.mark.parametrize(
    ("before", "after", "is_moved"),
    [(there(5), there(5), False), (there(5), there(6), True), (there(None), there(None), True), (A, there(5), True)],
)
def test_a_graph_is_forgotten_where_an_input_moves(before: Any, after: DeviceArray, is_moved: bool) -> None:
    released: list[int] = []
    session: Any = SimpleNamespace(release_captured_graph=released.append)
    graph = RecordedGraph(Recording.POSSIBLE)
    prepared(graph)
    graph.input_moves(session, "x", before, after)
    assert released == []  # nothing is recorded yet
    number = prepared(graph)
    graph.input_moves(session, "x", after, after)
    assert released == []
    graph.input_moves(session, "x", before, after)
    assert released == ([int(number or 0)] if is_moved else [])
    demanded = RecordedGraph(Recording.DEMANDED)
    prepared(demanded)
    prepared(demanded)
    if not is_moved or before is A:
        demanded.input_moves(session, "x", before, after)
        return
    with pytest.raises(NotSupportedError) as info:
        demanded.input_moves(session, "x", before, after)
    assert str(info.value) == (
        "The session's work is recorded for other memory of the device than that now bound to the input x "
        "(constraint fixed-addresses). Write the new numbers into the bound array, use a binding for each "
        "array, or switch graph_capture off."
    )


def test_a_close_while_the_device_works_loses_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run was submitted: what is bound gets its numbers, and not those of the run before."""
    binding, bound, _ = made(monkeypatch, two(), waits_unlocked=True)
    target, a = np.zeros(2, np.float32), A.copy()
    bound.set_input("a", a)
    bound.set_input("b", B)
    bound.set_output("z", target)
    binding.run(bound)
    assert target.tolist() == [11, 22]
    native = binding._native[1]  # type: ignore[index]
    monkeypatch.setattr(native, "synchronize_outputs", binding.close)
    a[:] = 5
    fresh = binding.run(bound)
    assert {name: value.tolist() for name, value in fresh.items()} == {"y": [-5, -5]}
    assert target.tolist() == [15, 25]
    with pytest.raises(ClosedError):
        binding.run(bound)
