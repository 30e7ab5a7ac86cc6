"""Recurrent models: an output that is the next run's input, in one array or in two that swap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from helpers.models import FLOAT, FLOAT16, data, tensor
from helpers.sessions import open_session
from winml_py import (
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelSession,
    TensorFloat,
)
from winml_py.testing import FakeDevice

SIZE = 16
STEPS = 6


def late() -> bytes:
    """The answer needs the old state after the new one is there."""
    nodes = [
        helper.make_node("Add", ["state", "x"], ["next"]),
        helper.make_node("Relu", ["next"], ["positive"]),
        helper.make_node("Mul", ["positive", "state"], ["y"]),
    ]
    return model(nodes)


def product() -> bytes:
    """Each number of the new state needs all of the old one."""
    weights = np.random.default_rng(1).standard_normal((SIZE, SIZE), np.float32) / 4
    nodes = [
        helper.make_node("MatMul", ["state", "weights"], ["turned"]),
        helper.make_node("Add", ["turned", "x"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["next"]),
        helper.make_node("Sub", ["next", "state"], ["y"]),
    ]
    return model(nodes, {"weights": weights})


def transposed() -> bytes:
    """One operator reads and writes in different orders."""
    nodes = [helper.make_node("Transpose", ["state"], ["next"]), helper.make_node("Add", ["state", "x"], ["y"])]
    return model(nodes)


def gru() -> bytes:
    rng = np.random.default_rng(2)
    weights = {name: rng.standard_normal((1, 3 * SIZE, SIZE), np.float32) / 4 for name in ("w", "r")}
    nodes = [
        helper.make_node("Unsqueeze", ["x", "first"], ["block"]),
        helper.make_node("Unsqueeze", ["state", "first"], ["hidden"]),
        helper.make_node("GRU", ["block", "w", "r", "", "", "hidden"], ["", "after"], hidden_size=SIZE),
        helper.make_node("Squeeze", ["after", "first"], ["next"]),
        helper.make_node("Sub", ["next", "state"], ["y"]),
    ]
    return model(nodes, weights | {"first": np.array([0])})


def model(nodes: list[Any], weights: dict[str, np.ndarray] | None = None) -> bytes:
    ends = [tensor(name, [SIZE, SIZE]) for name in ("state", "x", "next", "y")]
    return data(nodes, ends[:2], ends[2:], weights)


def blocks() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((SIZE, SIZE), np.float32) for _ in range(STEPS)]


def start() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((SIZE, SIZE), np.float32)


def plain_loop(content: bytes) -> list[np.ndarray]:
    """By raw ONNX Runtime, with fresh memory for every run."""
    raw = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    state, answers = start(), []
    for x in blocks():
        state, y = raw.run(["next", "y"], {"state": state, "x": x})
        answers += [state, y]
    return answers


def one_array(session: LearningModelSession) -> list[np.ndarray]:
    state, x, y = start(), np.empty((SIZE, SIZE), np.float32), np.empty((SIZE, SIZE), np.float32)
    binding, answers = LearningModelBinding(session), []
    for name, array in (("state", state), ("next", state), ("x", x), ("y", y)):
        binding.bind(name, array)
    for block in blocks():
        x[:] = block
        result = session.evaluate(binding)
        assert result.outputs["next"] is state
        answers += [state.copy(), y.copy()]
    return answers


def output_first(session: LearningModelSession) -> list[np.ndarray]:
    """As before, the output bound before the input, and other outputs left to the engine."""
    state, binding, answers = start(), LearningModelBinding(session), []
    binding.bind("next", state)
    binding.bind("state", state)
    for block in blocks():
        binding.bind("x", block)
        y = session.evaluate(binding).outputs["y"].to_numpy()
        answers += [state.copy(), y]
    return answers


def two_arrays(session: LearningModelSession) -> list[np.ndarray]:
    """Bound again for every run, the other way round."""
    before, after, binding, answers = start(), np.empty((SIZE, SIZE), np.float32), LearningModelBinding(session), []
    for block in blocks():
        binding.bind("state", before)
        binding.bind("next", after)
        binding.bind("x", block)
        y = session.evaluate(binding).outputs["y"].to_numpy()
        answers += [after.copy(), y]
        before, after = after, before
    return answers


def two_bindings(session: LearningModelSession) -> list[np.ndarray]:
    """Bound once each: they take turns."""
    states, x, answers = [start(), np.empty((SIZE, SIZE), np.float32)], np.empty((SIZE, SIZE), np.float32), []
    bindings = [LearningModelBinding(session) for _ in states]
    for turn, binding in enumerate(bindings):
        binding.bind("state", states[turn])
        binding.bind("next", states[1 - turn])
        binding.bind("x", x)
    for step, block in enumerate(blocks()):
        x[:] = block
        y = session.evaluate(bindings[step % 2]).outputs["y"].to_numpy()
        answers += [states[1 - step % 2].copy(), y]
    return answers


def neighbours(session: LearningModelSession) -> list[np.ndarray]:
    """The next state is written half over the state: its second half begins where the state's ends."""
    memory, binding, answers = np.zeros((SIZE * 3 // 2, SIZE), np.float32), LearningModelBinding(session), []
    state, after = memory[:SIZE], memory[SIZE // 2 :]
    binding.bind("state", state)
    binding.bind("next", after)
    now = start()
    for block in blocks():
        state[:] = now
        binding.bind("x", block)
        y = session.evaluate(binding).outputs["y"].to_numpy()
        now = after.copy()
        answers += [now, y]
    return answers


MODELS = {"late": late, "product": product, "transposed": transposed, "gru": gru}
WAYS = [one_array, output_first, two_arrays, two_bindings, neighbours]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("content", MODELS.values(), ids=MODELS)
def test_states_are_those_of_a_plain_loop(
    content: Callable[[], bytes], way: Callable[[LearningModelSession], list[np.ndarray]]
) -> None:
    session = LearningModelSession(LearningModel.load(content()))
    for found, expected in zip(way(session), plain_loop(content()), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("content", MODELS.values(), ids=MODELS)
def test_a_stream_advances_a_state(content: Callable[[], bytes]) -> None:
    """It copies what a generator may overwrite, but not the state, which each run writes for the next one."""
    state = start()
    items = ({"x": block, "state": state, "next": state} for block in blocks())
    results = open_session(content()).evaluate_many(items, concurrency=1)
    for result, expected in zip(results, plain_loop(content())[1::2], strict=True):
        np.testing.assert_allclose(result["y"], expected, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("content", [late, transposed])
@pytest.mark.parametrize("engine", ["openvino", "gpu"])
def test_other_engines(
    engine: str,
    content: Callable[[], bytes],
    way: Callable[..., list[np.ndarray]],
    real_plugins: None,
    request: pytest.FixtureRequest,
) -> None:
    found = request.getfixturevalue(engine)
    session = open_session(content(), found) if engine == "gpu" else open_session(content(), engine=engine)
    for came, expected in zip(way(session), plain_loop(content()), strict=True):
        np.testing.assert_allclose(came, expected, atol=1e-4)


@pytest.mark.parametrize("content", MODELS.values(), ids=MODELS)
def test_two_tensors_of_a_gpu_that_swap(gpu: LearningModelDevice, content: Callable[[], bytes]) -> None:
    session = LearningModelSession(LearningModel.load(content()), gpu)
    binding, answers = LearningModelBinding(session), []
    before, after = session.upload(start()), session.upload(start())
    for block in blocks():
        binding.bind("state", before)
        binding.bind("next", after)
        binding.bind("x", block)
        y = session.evaluate(binding).outputs["y"].to_numpy()
        answers += [after.to_numpy(), y]
        before, after = after, before
    for found, expected in zip(answers, plain_loop(content()), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_one_tensor_of_a_gpu_is_refused(gpu: LearningModelDevice) -> None:
    """There the host could not copy it in time; in two bindings it is what swapping needs."""
    session = LearningModelSession(LearningModel.load(late()), gpu)
    binding, state = LearningModelBinding(session), session.upload(start())
    for name, value in (("state", state), ("next", state), ("x", blocks()[0])):
        binding.bind(name, value)
    for _ in range(2):
        with pytest.raises(InvalidBindingError, match=r"state and the output next .* Bind two tensors, and swap them"):
            session.evaluate(binding)
    np.testing.assert_array_equal(state.to_numpy(), start())
    binding.bind("next", session.upload(start()))
    assert session.evaluate(binding).succeeded

    kept = TensorFloat.create([SIZE, SIZE])
    binding.bind("next", kept, {"DisableTensorCpuSync": True})
    session.evaluate(binding)
    binding.bind("state", kept)
    with pytest.raises(InvalidBindingError, match="same memory on the device"):
        session.evaluate(binding)
    binding.bind("next", TensorFloat.create([SIZE, SIZE]), {"DisableTensorCpuSync": True})
    assert session.evaluate(binding).succeeded


def test_the_engine_is_given_the_callers_arrays_again_once_they_are_apart() -> None:
    """What stands for an input that shares memory with an output is dropped when neither is bound so any more."""
    session = LearningModelSession(LearningModel.load(late()))
    binding = LearningModelBinding(session)
    state, x, other = start(), blocks()[0], np.empty((SIZE, SIZE), np.float32)
    for name, array in (("state", state), ("next", state), ("x", x)):
        binding.bind(name, array)
    session.evaluate(binding)
    binding.bind("next", other)
    state[:] = 5  # seen by the next run, as that of any bound array
    session.evaluate(binding)
    np.testing.assert_array_equal(other, x + 5)
    np.testing.assert_array_equal(state, np.float32(5))


def test_an_engine_that_is_given_its_inputs_in_each_run() -> None:
    device = FakeDevice(lambda inputs: {"next": inputs["state"] + inputs["x"], "y": inputs["state"] * 2})
    session = LearningModelSession(LearningModel.load(late()), device)
    state = start()
    for found, before in zip(one_array(session)[1::2], np.cumsum([state, *blocks()[:-1]], axis=0), strict=True):
        np.testing.assert_allclose(found, before * 2, rtol=1e-5)


# Float16 states in float32 arrays, which are cast before each run


def doubler(element: int) -> bytes:
    """The next state is twice the state, in the shape of pictures."""
    ends = [tensor(name, [1, 1, 2, 2], element) for name in ("state", "next")]
    return data([helper.make_node("Add", ["state", "state"], ["next"])], ends[:1], ends[1:])


def ones() -> np.ndarray:
    return np.ones((1, 1, 2, 2), np.float32)


def double_in_one(session: LearningModelSession, wrap: Callable[[np.ndarray], Any]) -> list[float]:
    state, binding, answers = ones(), LearningModelBinding(session), []
    value = wrap(state)
    binding.bind("state", value)
    binding.bind("next", value)
    for _ in range(3):
        session.evaluate(binding)
        answers.append(float(state[0, 0, 1, 1]))
    return answers


def double_in_two(session: LearningModelSession, wrap: Callable[[np.ndarray], Any]) -> list[float]:
    states, bindings, answers = [ones(), ones()], [LearningModelBinding(session) for _ in range(2)], []
    values = [wrap(state) for state in states]
    for turn, binding in enumerate(bindings):
        binding.bind("state", values[turn])
        binding.bind("next", values[1 - turn])
    for step in range(3):
        session.evaluate(bindings[step % 2])
        answers.append(float(states[1 - step % 2][0, 0, 1, 1]))
    return answers


def double_what_is_written(session: LearningModelSession, wrap: Callable[[np.ndarray], Any]) -> list[float]:
    """Each state is written into memory that stays bound."""
    value, binding, answers = wrap(ones()), LearningModelBinding(session), []
    binding.bind("state", value)
    for number in (1, 2, 4):
        if isinstance(value, TensorFloat):
            value.write(ones() * number)
        else:
            value[:] = number
        answers.append(float(session.evaluate(binding)["next"].to_numpy()[0, 0, 1, 1]))
    return answers


@pytest.mark.parametrize("way", [double_in_one, double_in_two, double_what_is_written])
@pytest.mark.parametrize("wrap", [np.asarray, TensorFloat.from_numpy])
@pytest.mark.parametrize("element", [FLOAT, FLOAT16])
def test_float16_states_advance(way: Callable[..., list[float]], wrap: Any, element: int) -> None:
    assert way(open_session(doubler(element)), wrap) == [2, 4, 8]


@pytest.mark.parametrize(
    ("number", "doubled"),
    [(-30_000, -60_000), (65519.9, np.inf), (65520, None), (-1e5, None), (np.inf, np.inf), (np.nan, np.nan)],
)
def test_a_state_that_float16_cannot_hold_is_refused(number: float, doubled: float | None) -> None:
    session = open_session(doubler(FLOAT16))
    state, binding = ones(), LearningModelBinding(session)
    binding.bind("state", state)
    state[0, 0, 1, 0] = number
    if doubled is None:
        with pytest.raises(InvalidBindingError, match=f"state is float16, but {number:g} is outside its range"):
            session.evaluate(binding)
        with pytest.raises(InvalidBindingError, match="outside its range"):
            binding.bind("state", state)
        state[0, 0, 1, 0], doubled = 1, 2  # it is still bound
    result = session.evaluate(binding)["next"].to_numpy()
    np.testing.assert_array_equal(result.reshape(-1), np.float16([2, 2, doubled, 2]))
