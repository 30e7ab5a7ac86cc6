"""`options.isolation`: an engine in a process of its own computes the same, and its end is an error."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper

from helpers import models, winml_models
from helpers.cli import call
from helpers.models import INT64, STRING
from helpers.paths import MODELS, PICTURES
from helpers.processes import (
    ABORTED,
    IS_WINDOWS,
    count_open,
    describe_signal,
    find_children,
    interrupt,
    is_alive,
    send_signal,
    start_program,
)
from helpers.reference import run_raw
from helpers.waiting import wait_until
from winml_py import (
    Isolation,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    Weights,
)
from winml_py.core.base.winrt_object import private_state
from winml_py.core.runtime.engine import EngineOptions
from winml_py.core.runtime.isolated import isolated_engine, system, wire
from winml_py.core.runtime.request import CompileRequest
from winml_py.errors import (
    CanceledError,
    ClosedError,
    CorruptModelError,
    DeviceLostError,
    EngineLostError,
    EvaluationError,
    EvaluationTimeoutError,
    InvalidArgumentError,
    NotSupportedError,
    SizeMismatchError,
    WinMLError,
)
from winml_py.testing import FakeDevice


def options(isolation: Any = "process", **changes: Any) -> LearningModelSessionOptions:
    made = LearningModelSessionOptions()
    made.isolation, made.batch_size_override = isolation, 0
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def isolated(model: bytes | Path, isolation: Any = "process", **changes: Any) -> LearningModelSession:
    return LearningModelSession(LearningModel.load(model), options=options(isolation, **changes))


@pytest.fixture(scope="module")
def session() -> Iterator[LearningModelSession]:
    """One for the tests that do not end it."""
    with isolated(MODELS / "digits.onnx") as made:
        yield made


def number(session: LearningModelSession) -> int:
    """The process that its engine is in."""
    return private_state(session).engine.process_number  # type: ignore[attr-defined]


def limit_of_files(free: int) -> int:
    """The limit with which this process can open so many files more: numbers in use may have gaps between them."""
    limit = 0
    while True:
        try:
            os.fstat(limit)
        except OSError:
            free -= 1
        if free < 0:
            return limit
        limit += 1


def random_digits(count: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 1, 28, 28), np.float32)


def slow_kernel() -> bytes:
    """A recurrent layer: one kernel, which takes ten seconds or more of a long row, and looks at no request to stop."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((1, 512, 1), np.float32), "r": rng.random((1, 512, 128), np.float32)}
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=128)
    return models.data([node], [models.tensor("x", ("n", 1, 1))], [models.tensor("y", (1, 1, 128))], weights)


SLOW = np.ones((2_000_000, 1, 1), np.float32)


class TestTheSameAnswers:
    def test_results_stay_what_they_are(self, session: LearningModelSession) -> None:
        """They are not views of shared memory, which the next run writes."""
        first = session.evaluate_features({"image": random_digits(seed=1)}).outputs["probabilities"].to_numpy()
        kept = first.copy()
        session.evaluate_features({"image": random_digits(seed=2)})
        np.testing.assert_array_equal(first, kept)
        first[:] = 0  # it is the caller's own

    def test_shapes_that_change(self) -> None:
        with isolated(MODELS / "digits_batch.onnx") as session:
            for count in [*range(1, 5), 400, 3, 400, 1]:
                images = random_digits(count, seed=count)
                expected = run_raw(str(MODELS / "digits_batch.onnx"), {"image": images})
                outputs = session.evaluate_features({"image": images}).outputs
                for name, value in expected.items():
                    np.testing.assert_array_equal(outputs[name].to_numpy(), value)

    def test_outputs_whose_size_depends_on_the_numbers(self) -> None:
        model = models.data(
            [helper.make_node("NonZero", ["x"], ["where"]), helper.make_node("Neg", ["x"], ["y"])],
            [models.tensor("x", ("n",))],
            [models.tensor("where", (1, "m"), TensorProto.INT64), models.tensor("y", ("n",))],
        )
        with isolated(model) as session:
            for ones in ([1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1]):
                x = np.float32(ones)
                outputs = session.evaluate_features({"x": x}).outputs
                np.testing.assert_array_equal(outputs["where"].to_numpy(), [np.flatnonzero(x)])
                np.testing.assert_array_equal(outputs["y"].to_numpy(), -x)

    @pytest.mark.parametrize("size", [0, 1, 5, 3_000_000])
    def test_sizes(self, size: int) -> None:
        x = np.arange(size, dtype=np.float32)
        with isolated(models.unary("Neg")) as session:
            for _ in range(3):
                np.testing.assert_array_equal(session.evaluate_features({"x": x}).outputs["y"].to_numpy(), -x)

    @pytest.mark.parametrize("kind", ["float64", "float16", "bool", "int8", "uint64"])
    @pytest.mark.parametrize("numbers", [[0, 1, 1], [1]], ids=str)
    def test_number_types(self, kind: str, numbers: list[int]) -> None:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        x = np.array(numbers, kind)
        with isolated(models.unary("Identity", element=element)) as session:
            for _ in range(3):
                came = session.evaluate_features({"x": x}).outputs["y"].to_numpy()
                np.testing.assert_array_equal(came, x)
                assert came.dtype == x.dtype

    def test_maps_that_differ_in_the_sign_of_a_zero(self) -> None:
        with isolated(winml_models.zipmap(INT64)) as made:
            for number in (0.0, -0.0):
                (scores,) = made.evaluate_features({"X": np.float32([[number, 1, 2]])}).outputs["Y"]
                assert str(scores[0]) == str(number)

    def test_strings_maps_and_sequences(self) -> None:
        with isolated(winml_models.id_tensor_string()) as session:
            name = next(iter(session.model.input_features)).name
            shape = tuple(next(iter(session.model.input_features)).shape)
            texts = np.array(["é", "\x00" + "x" * 100, "", "雪"] * 4, object)[: int(np.prod(shape))].reshape(shape)
            result = next(iter(session.evaluate_features({name: texts}).outputs.values()))
            assert result.to_numpy().tolist() == texts.tolist()
        scores = np.float32([[0.25, 0.5, 0.25]])
        for model, value in (
            (winml_models.zipmap(INT64), scores),
            (winml_models.zipmap(STRING), scores),
            (winml_models.castmap(INT64), {1: 1.5, 2: 2.5}),
            (winml_models.dictvectorizer(STRING), {"a": 1.5, "b": 2.5}),
        ):
            with isolated(model) as session:
                name = next(iter(session.model.input_features)).name
                with LearningModelSession(session.model, options=options(None)) as plain:
                    expected = plain.evaluate_features({name: value}).outputs
                for _ in range(2):
                    assert repr(session.evaluate_features({name: value}).outputs) == repr(expected)

    def test_eight_threads(self, session: LearningModelSession) -> None:
        images = [random_digits(seed=seed) for seed in range(8)]
        expected = [run_raw(str(MODELS / "digits.onnx"), {"image": image})["probabilities"] for image in images]
        wrong: list[int] = []

        def work(place: int) -> None:
            binding = LearningModelBinding(session)
            binding.bind("image", images[place])
            for _ in range(50):
                for result in (session.evaluate(binding), session.evaluate_features({"image": images[place]})):
                    if not np.array_equal(result.outputs["probabilities"].to_numpy(), expected[place]):
                        wrong.append(place)

        threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_a_large_model_from_bytes_is_in_no_file(self, tmp_path: Path) -> None:
        data = models.chain_matrices(2100)  # 17 MB: a model of that size is taken apart
        model, x = LearningModel.load(data), np.random.default_rng(0).random((2, 2100), np.float32)
        with LearningModelSession(model, options=options()) as session:
            model.dispose()
            name = next(iter(session.model.input_features)).name
            came = next(iter(session.evaluate_features({name: x}).outputs.values())).to_numpy()
            np.testing.assert_allclose(came, next(iter(run_raw(data, {name: x}).values())), rtol=1e-4)
            if sys.platform == "linux":
                files = [os.readlink(each) for each in Path(f"/proc/{number(session)}/fd").iterdir()]
                known = re.compile(r"/dev/null|/memfd:|.*\.so[.\d]*$")  # newer libffi keeps its own library open
                assert [each for each in files if "/" in each and not known.match(each)] == []

    @pytest.mark.parametrize("weights", Weights)
    def test_a_large_model_file(self, tmp_path: Path, weights: Weights) -> None:
        path = tmp_path / "large.onnx"
        path.write_bytes(models.chain_matrices(2100))
        x = np.random.default_rng(0).random((2, 2100), np.float32)
        with isolated(path, weights=weights) as session:
            came = session.evaluate_features({"h0": x}).outputs["h2"].to_numpy()
        np.testing.assert_allclose(came, run_raw(str(path), {"h0": x})["h2"], rtol=1e-4)

    def test_a_file_that_was_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "model.onnx"
        path.write_bytes(models.unary("Neg"))
        model = LearningModel.load(path)
        path.write_bytes(models.unary("Abs") + b"")
        os.utime(path, (1, 1))
        with pytest.raises(CorruptModelError, match="has changed"):
            LearningModelSession(model, options=options())

    def test_what_the_engine_says_of_itself(self, session: LearningModelSession) -> None:
        with LearningModelSession(session.model, options=options(None)) as plain:
            assert session.assigned_nodes == plain.assigned_nodes
            assert (session.engine, session.precision) == (plain.engine, plain.precision)
            assert str(session.explain()) == f"{plain.explain()}; in a separate process"
            assert session.get_intra_op_num_threads() == plain.get_intra_op_num_threads()

    def test_a_profile(self) -> None:
        with isolated(MODELS / "digits.onnx", profiling=True) as session:
            session.evaluate_features({"image": random_digits()})
            folder = Path(private_state(session).engine._folder)  # type: ignore[attr-defined]
            assert folder.is_dir()
            assert b"Conv" in private_state(session).engine.end_profiling()
        wait_until(lambda: not folder.exists())

    def test_an_engine_that_is_named(self, openvino: object) -> None:
        image = random_digits()
        with isolated(MODELS / "digits.onnx", engine="openvino", intra_op_num_threads=1) as session:
            assert session.engine == "openvino"
            for _ in range(3):
                result = session.evaluate_features({"image": image}).outputs["probabilities"].to_numpy()
            expected = run_raw(str(MODELS / "digits.onnx"), {"image": image})["probabilities"]
            np.testing.assert_allclose(result, expected, atol=1e-5)
            assert session.evaluate_features({"image": PICTURES / "seven.png"}).top_k(1)[0].index == 7


class TestErrors:
    def test_they_are_those_of_a_plain_session(self) -> None:
        model = models.data(
            [helper.make_node("Reshape", ["x", "shape"], ["y"])],
            [models.tensor("x", ("n",)), models.tensor("shape", ("r",), TensorProto.INT64)],
            [models.tensor("y", None)],
        )
        values = {"x": np.zeros(6, np.float32), "shape": np.int64([4])}
        with isolated(model) as session, LearningModelSession(session.model, options=options(None)) as plain:
            said = []
            for each in (plain, session):
                with pytest.raises(EvaluationError) as caught:
                    each.evaluate_features(values)
                said.append((str(caught.value), caught.value.hresult, caught.value.hint))
            assert said[0] == said[1]
            good = session.evaluate_features(values | {"shape": np.int64([2, 3])})  # the session lives on
            assert good.outputs["y"].to_numpy().shape == (2, 3)
            array = np.zeros((3, 3), np.float32)
            binding = LearningModelBinding(session)
            for name, value in (values | {"shape": np.int64([2, 3]), "y": array}).items():
                binding.bind(name, value)
            with pytest.raises(SizeMismatchError):
                session.evaluate(binding)
            assert np.isnan(array).all()

    def test_a_model_that_the_engine_refuses(self) -> None:
        node = helper.make_node("NoSuchOperator", ["x"], ["y"])
        model = models.model([node], [models.tensor("x", (1,))], [models.tensor("y", (1,))]).SerializeToString()
        with pytest.raises(WinMLError) as plain:
            LearningModelSession(LearningModel.load(model))
        with pytest.raises(type(plain.value)) as caught:
            isolated(model)
        assert str(caught.value) == str(plain.value)

    def test_a_closed_session(self) -> None:
        session = isolated(MODELS / "digits.onnx")
        binding, pid = LearningModelBinding(session), number(session)
        binding.bind("image", random_digits())
        session.close()
        assert not is_alive(pid)
        session.close()
        for use in (lambda: session.evaluate(binding), lambda: session.evaluate_features({"image": random_digits()})):
            with pytest.raises(ClosedError):
                use()

    def test_what_stays_in_this_process_is_refused(self) -> None:
        device = FakeDevice(lambda inputs: {"probabilities": np.zeros((1, 10), np.float32)})
        with pytest.raises(NotSupportedError, match="runs a function of this process"):
            LearningModelSession(LearningModel.load(MODELS / "digits.onnx"), device, options())
        from winml_py import CustomOperator

        operator = CustomOperator(lambda x: 2 * x, "Twice", "my", outputs=[(np.float32, 1)])
        node = helper.make_node("Twice", ["x"], ["y"], domain="my")
        model = models.model([node], [models.tensor("x", (1,))], [models.tensor("y", (1,))])
        model.opset_import.append(helper.make_opsetid("my", 1))
        loaded = LearningModel.load(model.SerializeToString(), operators=[operator])
        with pytest.raises(NotSupportedError, match="Python functions of this process"):
            LearningModelSession(loaded, options=options())

    def test_systems_without_such_a_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(sys, "prefix", "/no/such")
        with pytest.raises(NotSupportedError, match=r"call winml_py\.freeze_support\(\) first"):
            isolated(MODELS / "digits.onnx")

    def test_systems_without_memfd(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As macOS: the memory is a temporary file."""
        monkeypatch.delattr(os, "memfd_create", raising=False)
        image = random_digits()
        with isolated(MODELS / "digits.onnx") as session:
            for _ in range(2):
                result = session.evaluate_features({"image": image}).outputs["probabilities"].to_numpy()
            np.testing.assert_array_equal(
                result, run_raw(str(MODELS / "digits.onnx"), {"image": image})["probabilities"]
            )
            send_signal(number(session), "SIGKILL")
            with pytest.raises(EngineLostError, match=describe_signal("SIGKILL")):
                session.evaluate_features({"image": image})

    def test_options_and_files(self, tmp_path: Path) -> None:
        made = LearningModelSessionOptions()
        assert made.isolation is None
        made.isolation = "process"
        assert made.isolation == Isolation()
        made.isolation = Isolation(1 << 30, 60)
        made.save(tmp_path / "options.json")
        assert LearningModelSessionOptions.load(tmp_path / "options.json").isolation == Isolation(1 << 30, 60)
        for wrong in ("thread", True, 1, {"name": ""}):
            with pytest.raises((InvalidArgumentError, TypeError)):
                made.isolation = wrong
        for arguments in ({"max_memory": -1}, {"max_cpu_seconds": 1.5}):
            with pytest.raises(InvalidArgumentError):
                Isolation(**arguments)


def answering(answer: bytes) -> Any:
    """A connection on which an answer waits, and its other end."""
    ours, theirs = Pipe()
    system.send(theirs, wire.ANSWER)
    theirs.send_bytes(answer)
    return ours, theirs


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class _Aborting:
    """Stands for a runtime that ends the process: as it is unpickled there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


class TestEnds:
    def test_between_two_evaluations(self) -> None:
        session = isolated(MODELS / "digits.onnx")
        image, array = random_digits(), np.zeros((1, 10), np.float32)
        binding = LearningModelBinding(session)
        binding.bind("image", image)
        binding.bind("probabilities", array)
        session.evaluate(binding)
        assert not session.is_lost
        pid = number(session)
        send_signal(pid, "SIGSEGV")
        wait_until(lambda: session.is_lost)
        for use in (
            lambda: session.evaluate(binding),
            lambda: session.evaluate_features({"image": image}),
            lambda: session.evaluate_features({"image": PICTURES / "seven.png"}),
            lambda: LearningModelBinding(session).bind("image", image),
        ):
            with pytest.raises(EngineLostError, match=describe_signal("SIGSEGV")):
                use()
        assert np.isnan(array).all()
        assert "lost" in repr(session)
        session.close()
        assert not is_alive(pid)
        with LearningModelSession(session.model, options=options()) as another:
            assert another.evaluate_features({"image": PICTURES / "seven.png"}).top_k(1)[0].index == 7

    def test_while_it_evaluates(self) -> None:
        session = isolated(slow_kernel())
        threading.Timer(0.5, os.kill, (number(session), signal.SIGABRT)).start()
        words = rf"ended while it evaluated the model \({describe_signal('SIGABRT')}\)"
        with pytest.raises(EngineLostError, match=words):
            session.evaluate_features({"x": SLOW})
        session.close()

    def test_while_it_compiles(self) -> None:
        compiler = isolated_engine.IsolatedCompiler(_Aborting(), Isolation())  # type: ignore[arg-type]
        with pytest.raises(EngineLostError, match=rf"ended while it compiled the model \({ABORTED}\)"):
            compiler.compile(CompileRequest(models.unary(), EngineOptions(1)))

    def test_last_words(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(isolated_engine.child.serve, "__module__", "no.such.module")
        with pytest.raises(EngineLostError, match=r"status 1.*last output.*No module named"):
            isolated(MODELS / "digits.onnx")

    def test_no_process_can_be_started(self, request: pytest.FixtureRequest) -> None:
        request.addfinalizer(lambda: multiprocessing.set_executable(sys.executable))
        multiprocessing.set_executable("/no/such/python")
        with pytest.raises(EngineLostError, match="Cannot start a process for the engine"):
            isolated(MODELS / "digits.onnx")

    @pytest.mark.posix("Windows has no limit of a process's files")
    def test_no_more_files(self, session: LearningModelSession) -> None:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        model = LearningModel.load(models.unary())
        free, private_state(session).engine._free = private_state(session).engine._free, []  # type: ignore[attr-defined]
        raised: list[type[BaseException]] = []
        image = random_digits()
        try:
            for more in range(8):
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit_of_files(more), hard))
                for use in (
                    lambda: session.evaluate_features({"image": image}),
                    lambda: LearningModelSession(model, options=options()).close(),
                ):
                    try:
                        use()
                    except WinMLError as error:
                        raised.append(type(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            private_state(session).engine._free += free  # type: ignore[attr-defined]
        assert EngineLostError in raised
        assert EvaluationError in raised
        assert session.evaluate_features({"image": PICTURES / "seven.png"}).top_k(1)[0].index == 7
        with isolated(models.unary()) as another:
            assert another.evaluate_features({"x": np.float32([1])}).outputs["y"].to_numpy() == 1

    def test_closing_waits_for_the_run_in_flight(self) -> None:
        session = isolated(models.counting_loop())
        pid = number(session)
        operation = session.evaluate_features_async({"count": np.array(500_000), "x": np.float32(0)})
        time.sleep(0.2)
        session.close()
        assert is_alive(pid)
        assert operation.get(60).outputs["y"].to_numpy() == 0
        wait_until(lambda: not is_alive(pid))

    def test_a_session_that_nobody_closes(self) -> None:
        session = isolated(MODELS / "digits.onnx")
        pid = number(session)
        del session
        gc.collect()
        wait_until(lambda: not is_alive(pid))

    @pytest.mark.parametrize(
        "answer",
        [
            b"\xff" * 20,
            b"[]",
            b'{"value": 7}',
            b'{"value": [9, [["probabilities", "O", [1], 0]], {}]}',
            b'{"value": [9, [["probabilities", "<f4", [1], 1048577]], {}]}',
            b'{"error": {"class": "os"}}',
        ],
    )
    def test_an_answer_that_nobody_can_read(self, answer: bytes) -> None:
        session = isolated(MODELS / "digits.onnx")
        session.evaluate_features({"image": random_digits()})
        (lane,) = private_state(session).engine._free  # type: ignore[attr-defined]
        lane.connection.close()
        lane.connection, theirs = answering(answer)
        with session, theirs, pytest.raises(EngineLostError, match="sent an invalid answer"):
            session.evaluate_features({"image": random_digits()})

    def test_closing_one_that_is_stopped(self) -> None:
        session = isolated(models.unary())
        pid = number(session)
        psutil.Process(pid).suspend()
        session.close()
        assert not is_alive(pid)

    @pytest.mark.parametrize("timeout", [None, 60])
    def test_a_lost_one_keeps_no_file_open(self, timeout: float | None) -> None:
        isolated(models.unary()).close()  # what the first session of a program keeps
        gc.collect()
        gc.disable()
        try:
            before = count_open()
            session = isolated(MODELS / "digits.onnx")
            binding = LearningModelBinding(session)
            binding.bind("image", random_digits())
            session.evaluate(binding)
            send_signal(number(session), "SIGKILL")
            with pytest.raises(EngineLostError):
                session.evaluate(binding, timeout=timeout)
            assert count_open() == before
            session.close()
            assert count_open() == before
        finally:
            gc.enable()

    def test_a_lost_session_that_nobody_closes(self) -> None:
        """Warnings are errors here, and Python warns of sockets and processes that nobody closes."""
        for is_cycle in (False, True):
            session = isolated(MODELS / "digits.onnx")
            session.evaluate_features({"image": random_digits()})
            send_signal(number(session), "SIGKILL")
            wait_until(lambda made=session: made.is_lost)  # type: ignore[misc]
            if is_cycle:
                session.evaluation_properties["itself"] = session
            del session
            gc.collect()

    def test_an_exception_while_it_waits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C, say: the session lives on, and the late answer is not taken for that of the next run."""
        with isolated(MODELS / "digits.onnx") as session:
            images = [random_digits(seed=seed) for seed in range(2)]
            session.evaluate_features({"image": images[0]})
            with monkeypatch.context() as patch:
                patch.setattr(system, "receive", raise_interrupt)
                with pytest.raises(KeyboardInterrupt):
                    session.evaluate_features({"image": images[0]})
            result = session.evaluate_features({"image": images[1]}).outputs["probabilities"].to_numpy()
            expected = run_raw(str(MODELS / "digits.onnx"), {"image": images[1]})["probabilities"]
            np.testing.assert_array_equal(result, expected)

    def test_an_error_of_another_class_is_an_evaluation_error(self) -> None:
        facts = {"class": "os", "message": "m", "hint": "", "hresult": 1}
        assert type(wire.error_from_json(facts)) is EvaluationError


class TestStops:
    def test_a_time_limit_ends_a_running_kernel(self) -> None:
        session = isolated(slow_kernel())
        begin = time.monotonic()
        with pytest.raises(EvaluationTimeoutError):
            session.evaluate_features({"x": SLOW}, timeout=0.3)
        assert time.monotonic() - begin < 4
        wait_until(lambda: session.is_lost)
        with pytest.raises(EngineLostError, match="killed since an evaluation in it did not stop"):
            session.evaluate_features({"x": SLOW[:2]})
        session.close()

    def test_a_run_of_many_nodes_stops_and_the_session_lives(self) -> None:
        session = isolated(models.counting_loop())
        values = {"count": np.array(1 << 40), "x": np.float32(1)}
        with session:
            for _ in range(3):
                with pytest.raises(EvaluationTimeoutError):
                    session.evaluate_features(values, timeout=0.1)
                operation = session.evaluate_features_async(values)
                time.sleep(0.05)
                operation.cancel()
                with pytest.raises(CanceledError):
                    operation.get(30)
                assert not session.is_lost
                few = session.evaluate_features(values | {"count": np.array(3)}, timeout=30)
                assert few.outputs["y"].to_numpy() == 8

    def test_a_compilation_can_be_cancelled(self) -> None:
        operation = LearningModelSession.create_async(LearningModel.load(MODELS / "digits.onnx"), options=options())
        operation.cancel()
        with pytest.raises(CanceledError):
            operation.get(30)


class TestLimits:
    @pytest.mark.posix("Windows has no limit of a process's memory")
    @pytest.mark.skipif(sys.platform == "darwin", reason="only Linux counts what a process allocates")
    def test_memory(self) -> None:
        model = models.data(
            [
                helper.make_node("Expand", ["x", "shape"], ["big"]),
                helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0),
            ],
            [models.tensor("x", (1,)), models.tensor("shape", (1,), TensorProto.INT64)],
            [models.tensor("y", ())],
        )
        with isolated(model, Isolation(max_memory=1 << 30)) as session:
            ask = lambda count: session.evaluate_features({"x": np.float32([1]), "shape": np.int64([count])})  # noqa: E731
            assert ask(1000).outputs["y"].to_numpy() == 1000
            with pytest.raises(EvaluationError):
                ask(1 << 30)  # 4 GB

    @pytest.mark.exhaustive
    def test_time_of_the_processor(self) -> None:
        session = isolated(slow_kernel(), Isolation(max_cpu_seconds=3))
        with session, pytest.raises(EngineLostError, match="SIGXCPU"):
            session.evaluate_features({"x": SLOW})


PROGRAM = """
import os, sys, time
import numpy as np
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py.core.base.winrt_object import private_state
options = LearningModelSessionOptions()
options.isolation = "process"
session = LearningModelSession(LearningModel.load(sys.argv[1]), options=options)
image = {"image": np.zeros((1, 1, 28, 28), np.float32)}
session.evaluate_features(image)
print(private_state(session).engine.process_number, flush=True)
"""


class TestTheParent:
    def start(self, more: str, popen: Any = psutil.Popen) -> tuple[psutil.Popen, int]:
        command = [sys.executable, "-c", PROGRAM + more, str(MODELS / "digits.onnx")]
        started = popen(command, stdout=subprocess.PIPE, text=True)
        return started, int(started.stdout.readline())

    @pytest.mark.parametrize(
        "more",
        [
            "time.sleep(60)",
            pytest.param("os.fork() or time.sleep(60); time.sleep(60)", marks=pytest.mark.posix("Windows has no fork")),
        ],
    )
    def test_killed(self, more: str) -> None:
        """Also where a fork of it lives on, and holds what it had open."""
        parent, pid = self.start(more)
        with parent:
            forked = []
            if "fork" in more:
                wait_until(lambda: bool(find_children(parent.pid) - {pid}))
                forked = list(find_children(parent.pid) - {pid})
            parent.kill()
            parent.wait()
            wait_until(lambda: not is_alive(pid))
            for each in forked:
                os.kill(each, signal.SIGKILL)

    def test_ends_without_closing(self) -> None:
        parent, pid = self.start("")
        with parent:
            assert parent.wait(20) == 0
        wait_until(lambda: not is_alive(pid))

    @pytest.mark.parametrize(
        "closed",
        [
            pytest.param("0,1,2", marks=pytest.mark.posix("Python's mmap takes descriptor 0 for no file on Windows")),
            "2",
        ],
    )
    def test_without_standard_files(self, closed: str, tmp_path: Path) -> None:
        """As some programs start their children."""
        program = f"import os\nfor file in ({closed},):\n    os.close(file)\n" + PROGRAM.replace("print", "#")
        program += f"open({str(tmp_path / 'said')!r}, 'w').write('right')\n"
        subprocess.run([sys.executable, "-c", program, MODELS / "digits.onnx"], timeout=60, check=False)
        assert (tmp_path / "said").read_text() == "right"

    def test_interrupted(self) -> None:
        """Ctrl-C at a terminal reaches both; the engine's process leaves it to its parent."""
        parent, pid = self.start(
            "try:\n    print('waits', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    time.sleep(0.2)\n"
            "session.evaluate_features(image)\nprint('right')",
            start_program,
        )
        with parent:
            assert parent.stdout.readline() == "waits\n"
            if not IS_WINDOWS:
                os.kill(pid, signal.SIGINT)
            interrupt(parent)
            assert parent.stdout.read() == "right\n"
        wait_until(lambda: not is_alive(pid))

    @pytest.mark.posix("Windows has no fork")
    def test_a_fork_refuses_the_session_and_ends_nothing(self) -> None:
        parent, pid = self.start(
            """
import warnings
warnings.simplefilter("ignore")
child = os.fork()
if not child:
    try:
        session.evaluate_features(image)
    except Exception as error:
        print(type(error).__name__, flush=True)
    session.close()
    another = LearningModelSession(session.model, options=options)
    print(another.evaluate_features(image).outputs["probabilities"].to_numpy().shape, flush=True)
    another.close()
    os._exit(0)
os.waitpid(child, 0)
print(session.evaluate_features(image).outputs["probabilities"].to_numpy().shape, flush=True)
"""
        )
        with parent:
            assert parent.stdout.read().splitlines() == ["IllegalCallError", "(1, 10)", "(1, 10)"]
        wait_until(lambda: not is_alive(pid))

    def test_nothing_stays_open(self) -> None:
        def count() -> tuple[int, int]:
            return count_open(), threading.active_count()

        with isolated(MODELS / "digits.onnx"):
            pass
        gc.collect()
        before = count()
        for _ in range(3):
            with isolated(MODELS / "digits.onnx") as session:
                session.evaluate_features({"image": random_digits()})
            lost = isolated(MODELS / "digits.onnx")
            send_signal(number(lost), "SIGKILL")
            with pytest.raises(DeviceLostError):
                lost.evaluate_features({"image": random_digits()})
            lost.close()
        gc.collect()
        wait_until(lambda: count() <= before)


def test_the_command_goes_on_with_the_next_input(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[int] = []
    evaluate = LearningModelSession.evaluate_many

    def end_the_first(session: LearningModelSession, inputs: Any, **options: Any) -> Any:
        processes.append(number(session))
        if len(processes) == 1:
            send_signal(processes[0], "SIGSEGV")
            wait_until(lambda: session.is_lost)  # one of its threads may answer before the signal ends it
        return evaluate(session, inputs, **options)

    monkeypatch.setattr(LearningModelSession, "evaluate_many", end_the_first)
    seven = str(PICTURES / "seven.png")
    done = call("run", "--isolated", str(MODELS / "digits.onnx"), seven, seven, "--json")
    first, second = json.loads(done.stdout)["results"]
    assert (done.exit_code, first["error"]["type"]) == (1, "EngineLostError")
    assert describe_signal("SIGSEGV") in first["error"]["message"]
    monkeypatch.undo()
    (alone,) = json.loads(call("run", str(MODELS / "digits.onnx"), seven, "--json").stdout)["results"]
    assert second["outputs"] == alone["outputs"]
    assert processes[0] != processes[1]


def test_a_gpu_computes_the_same(gpu: LearningModelDevice) -> None:
    image = random_digits()
    model = LearningModel.load(MODELS / "digits.onnx")
    with LearningModelSession(model, gpu, options()) as session:
        for _ in range(3):
            came = session.evaluate_features({"image": image}).outputs["probabilities"].to_numpy()
        np.testing.assert_allclose(
            came, run_raw(str(MODELS / "digits.onnx"), {"image": image})["probabilities"], atol=1e-4
        )
        assert session.evaluate_features({"image": PICTURES / "seven.png"}).top_k(1)[0].index == 7
