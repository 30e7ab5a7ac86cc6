"""Tries everything that the package does on a card, the most important first, and writes what came of it.

    python tests/tools/card.py [--engine NAME] [--minutes N] [--output FOLDER]
    python tests/tools/card.py [--engine NAME] --wheels

It needs the package and this checkout, and no package index: it first names the wheels that the engine needs, and
their sizes; with `--wheels`, it does no more. The engine is a part of a provider's name: `webgpu`, `cuda`,
`nvtensorrtrtx`; the default is any GPU.

Each step runs in a process of its own with a limit of time, so a step that hangs or crashes loses only itself. After
each step, FOLDER (the default is `card`) has `card.json` and `card.md` with all steps so far. A step is done, or
skipped with its reason, or failed. The exit code is 1 if one failed or there is no such card.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
MODELS, PICTURES = ROOT / "models", ROOT / "samples" / "pictures"

WHEELS = {
    "webgpu": {"onnxruntime-ep-webgpu": 14},
    "nvtensorrtrtx": {"onnxruntime-ep-nv-tensorrt-rtx-cu13": 147},
    "cuda": {  # beside the driver; not with onnxruntime
        "onnxruntime-gpu": 256,
        "nvidia-cudnn-cu13": 516,
        "nvidia-cublas": 444,
        "nvidia-cufft": 165,
        "nvidia-curand": 77,
        "nvidia-cuda-nvrtc": 58,
        "nvidia-nvjitlink": 46,
        "nvidia-cuda-runtime": 2,
        "cupy-cuda13x": 69,
    },
    "openvino": {"onnxruntime-ep-openvino": 53},
    "mlx": {"onnxruntime-ep-mlx": 43},
    "dml": {"onnxruntime-directml": 25},
}
"""The packages that an engine needs beside those of winml-py itself, and the sizes of their wheels in MB."""


class Skip(Exception):  # noqa: N818
    """Why a step does not apply to this card, or cannot be tried on this machine."""


# The steps. Each gets the device, and returns what it showed: a sentence, or several figures.


def open_session(model: Any, device: Any, **settings: Any) -> Any:
    from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions

    options = LearningModelSessionOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    return LearningModelSession(LearningModel.load(model), device, options)


def make_model(text: str, **weights: Any) -> bytes:
    """A model in ONNX's text format, with weights."""
    from onnx import numpy_helper, parser

    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model.SerializeToString()


def neg(shape: str = "3") -> bytes:
    return make_model(f"neg (float[{shape}] x) => (float[{shape}] y) {{ y = Neg (x) }}")


def open_long(device: Any) -> tuple[Any, Callable[[int], Any]]:
    """A session whose runs take as long as asked for, and the function that makes its inputs: y = x, count times."""
    body = "body (int64 i, bool on, float[256, 256] a) => (bool next, float[256, 256] b)"
    model = make_model(
        f"long (int64 n, float[256, 256] x) => (float[256, 256] y) {{ go = Constant <value = bool {{1}}> ()"
        f" y = Loop (n, go, x) <body = {body} {{ next = Identity (on) b = MatMul (a, one) }}> }}",
        one=numpy().eye(256, dtype="float32"),
    )
    x = numpy().random.default_rng(0).random((256, 256), "float32")
    return open_session(model, device), lambda count: {"n": numpy().array(count, "int64"), "x": x}


def find_count(session: Any, make: Callable[[int], Any], seconds: float) -> int:
    """How many rounds of `open_long` take about so long."""
    count, took = 8, 0.0
    while took < seconds / 8:
        count *= 4
        began = time.perf_counter()
        session.evaluate_features(make(count)).outputs["y"].to_numpy()
        took = time.perf_counter() - began
    return int(count * seconds / took)


def numpy() -> Any:  # imported in the steps' processes alone
    import numpy

    return numpy


def compare(model: Any, device: Any, inputs: dict[str, Any], most: float) -> float:
    """The largest relative error of the outputs against those of the CPU; fails above `most`."""
    from winml_py._values import evaluate_to_arrays
    from winml_py.core.base.agreement import compute_relative_error

    came = evaluate_to_arrays(open_session(model, device), inputs)
    expected = evaluate_to_arrays(open_session(model, None), inputs)
    error = max(compute_relative_error(expected[name], came[name]) for name in expected)
    assert error <= most, f"{model} differs from the CPU's results by {error:.2g}; expected at most {most:.2g}"
    return error


def find_device(engine: str) -> dict[str, Any]:
    from winml_py import LearningModelDevice
    from winml_py.core.runtime.providers import nvidia, plugins

    device = LearningModelDevice.find(engine)
    assert device.hardware != "cpu", f"{device.name} is no card"
    cards = "; ".join(f"{card.name}, driver {card.driver}" for card in nvidia.find_gpus())
    memory = f"{device.memory / 2**30:.1f} GiB" if device.memory else "not stated"
    facts = {
        "device": device.name,
        "provider": device.provider,
        "kind": f"{device.hardware}{', emulated on the processor' if device._device.is_software else ''}",
        "memory": memory,
        "float16": "yes" if device.supports_float16 else "no",
        "NVIDIA's driver": cards or "none",
        **plugins.read_versions(),
    }
    return {"facts": facts, "found": device._device}


def step_session(device: Any) -> str:
    from collections import Counter

    began = time.perf_counter()
    session = open_session(MODELS / "digits.onnx", device)
    opened = time.perf_counter()
    session.evaluate_features({"image": PICTURES / "seven.png"})
    first = time.perf_counter()
    session.evaluate_features({"image": PICTURES / "seven.png"})
    second = time.perf_counter()
    assert session.engine == device.provider
    nodes = Counter(node.provider for node in session.assigned_nodes)
    return (
        f"opened in {opened - began:.2f} s, first result after {first - opened:.2f} s, the next after "
        f"{(second - first) * 1e3:.1f} ms; nodes: {', '.join(f'{count} by {name}' for name, count in nodes.items())}"
    )


def step_digits(device: Any) -> str:
    picture = {"image": PICTURES / "seven.png"}
    result = open_session(MODELS / "digits.onnx", device).evaluate_features(picture)
    assert int(result.outputs["probabilities"].to_numpy().argmax()) == 7
    return f"reads the seven; {compare(MODELS / 'digits.onnx', device, picture, 1e-3):.1g} from the CPU"


def step_shapes(device: Any) -> str:
    from winml_py import vision

    found, expected = (
        sorted(shape.label for shape in vision.detections(next(session.evaluate_many([PICTURES / "shapes.png"]))))
        for session in (open_session(MODELS / "shapes.onnx", each) for each in (device, None))
    )
    assert found == expected, f"found {found}, and the CPU {expected}"
    return f"finds {', '.join(found)}, as the CPU does"


def step_float16(device: Any) -> str:
    if not device.supports_float16:
        raise Skip("the device does not compute in float16")
    session = open_session(MODELS / "digits_float16.onnx", device)
    assert session.precision.name == "FLOAT16", session.explain()
    error = compare(MODELS / "digits_float16.onnx", device, {"image": PICTURES / "seven.png"}, 2e-2)
    return f"computes in float16; {error:.1g} from the CPU"


def step_all_models(device: Any) -> str:
    from winml_py import LearningModel
    from winml_py._examples import make_examples

    errors = {}
    for path in sorted(MODELS.glob("*.onnx")):
        model = LearningModel.load(path)
        most = 1e-3 if model.precision == "float32" else 2e-2
        errors[path.stem] = compare(path, device, make_examples(model.input_features), most)
    return ", ".join(f"{name} {error:.1g}" for name, error in errors.items())


def run_in_threads(sessions: list[Any], threads: int, rounds: int) -> None:
    """Each thread evaluates its own inputs, and requires the result that one thread alone gets."""
    x = numpy().random.default_rng(1).random((threads, 1, 1, 28, 28), "float32")

    def evaluate(number: int) -> Any:
        session = sessions[number % len(sessions)]
        return session.evaluate_features({"image": x[number]}).outputs["probabilities"].to_numpy()

    expected = [evaluate(number) for number in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds):
            for number, came in enumerate(pool.map(evaluate, range(threads))):
                numpy().testing.assert_allclose(came, expected[number], rtol=1e-5, atol=1e-6)


def step_lock(device: Any) -> str:
    run_in_threads([open_session(MODELS / "digits.onnx", device)], 4, 25)
    return "100 evaluations of one session in 4 threads, each right"


def step_sessions(device: Any) -> str:
    run_in_threads([open_session(MODELS / "digits.onnx", device) for _ in range(4)], 4, 25)
    return "100 evaluations of 4 sessions in 4 threads, each right"


def step_arrays(device: Any) -> str:
    from winml_py import LearningModelBinding, TensorFloat

    first, second = open_session(neg(), device), open_session(neg(), device)
    uploaded, between = upload(first, [1, 2, 3]), TensorFloat.create()
    one, two = LearningModelBinding(first), LearningModelBinding(second)
    one.bind("x", uploaded)
    one.bind("y", between, {"DisableTensorCpuSync": True})
    for numbers in ([1, 2, 3], [4, 5, 6]):
        uploaded.write(numpy().array(numbers, "float32"))
        first.evaluate(one)
        assert between.is_on_device
        two.bind("x", between)
        came = second.evaluate(two).outputs["y"].to_numpy().tolist()
        assert came == numbers, f"expected {numbers}, got {came}"
    return "two sessions, and the tensor between them stays on the device"


def upload(session: Any, numbers: Any) -> Any:
    from winml_py import InvalidDeviceError

    try:
        return session.upload(numpy().array(numbers, "float32"))
    except InvalidDeviceError as error:
        raise Skip(str(error)) from None


def import_cupy(device: Any) -> Any:
    from winml_py.core.runtime.providers.catalogue import find_provider

    if not find_provider(device.provider).has_addresses:
        raise Skip(f"the memory of {device.provider} has no addresses that CuPy could use")
    if find_spec("cupy") is None:
        raise Skip("CuPy is not installed: winml-py[cupy]")
    import cupy

    return cupy


def step_cupy(device: Any) -> str:
    from winml_py import LearningModelBinding

    cupy = import_cupy(device)
    session = open_session(neg(), device)
    binding = LearningModelBinding(session)
    x, y = cupy.arange(3, dtype="float32"), cupy.empty(3, "float32")
    for _ in range(2):
        x += 1
        binding.bind("x", x)
        binding.bind("y", y)
        session.evaluate(binding)
        assert y.get().tolist() == (-x.get()).tolist()
    tensor = session.evaluate_features({"x": x}).outputs["y"]
    assert tensor.to_cupy().get().tolist() == (-x.get()).tolist()
    return "an array of CuPy as input, as output, and `to_cupy`"


def step_dlpack(device: Any) -> str:
    cupy = import_cupy(device)

    class OnlyDlpack:
        """An array of CuPy that has only this interface, and no `__cuda_array_interface__`."""

        def __init__(self, array: Any) -> None:
            self.array, self.shape = array, array.shape

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    from winml_py import LearningModelBinding, TensorFloat

    session = open_session(neg(), device)
    binding, y = LearningModelBinding(session), TensorFloat.create()
    binding.bind("x", OnlyDlpack(cupy.arange(3, dtype="float32")))
    binding.bind("y", y, {"DisableTensorCpuSync": True})
    session.evaluate(binding)
    assert cupy.from_dlpack(y).get().tolist() == [0, -1, -2]
    return "an array by DLPack in, and a tensor out"


def step_picture(device: Any) -> str:
    from winml_py import BitmapPixelFormat, LearningModelBinding, TensorFloat

    cupy = import_cupy(device)
    pixels = numpy().random.default_rng(2).integers(0, 256, (200, 300, 3), "uint8")
    session = open_session(MODELS / "edges.onnx", device)
    (given,), (output,) = session.model.input_features, session.model.output_features

    def evaluate(array: Any) -> Any:
        binding, tensor = LearningModelBinding(session), TensorFloat.create()
        binding.bind(given.name, array, {"BitmapPixelFormat": BitmapPixelFormat.RGB8})
        binding.bind(output.name, tensor)
        session.evaluate(binding)
        return tensor.to_numpy()

    came, expected = evaluate(cupy.asarray(pixels)), evaluate(pixels)
    apart = numpy().abs(came.astype(float) - expected).max()
    assert apart <= 2, f"differs by {apart} from the same pixels on the host"
    return f"pixels on the device, {apart:.1g} levels from the same on the host"


def step_graphs(device: Any) -> str:
    from winml_py import NotSupportedError

    try:
        session = open_session(neg(), device, graph_capture=True)
    except NotSupportedError as error:
        raise Skip(str(error)) from None
    x, seconds = numpy().zeros(3, "float32"), []
    for number in range(6):
        x = numpy().full(3, number, "float32")  # at another address each time
        began = time.perf_counter()
        came = session.evaluate_features({"x": x}).outputs["y"].to_numpy().tolist()
        seconds.append(time.perf_counter() - began)
        assert came == [-number] * 3, f"evaluation {number} gave {came}"
    return f"6 evaluations, each right; the first {seconds[0] * 1e3:.2f} ms, the last {seconds[-1] * 1e3:.2f} ms"


def step_streams(device: Any) -> str:
    from winml_py import LearningModelBinding

    cupy = import_cupy(device)
    size = 1 << 24
    session = open_session(neg(str(size)), device)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    bindings = [LearningModelBinding(session) for _ in streams]
    for number in range(10):
        for stream, binding in zip(streams, bindings, strict=True):
            with stream:
                x = cupy.full(size, 1, "float32")
                for _ in range(20):  # still at work when it is bound
                    x += number
                y = cupy.empty(size, "float32")
                binding.bind("x", x)
                binding.bind("y", y)
                session.evaluate(binding)
                assert bool((y == -(1 + 20 * number)).all()), "the evaluation did not wait for the stream"
    return "arrays that two streams were still writing, each right"


def step_dispose(device: Any) -> str:
    import gc
    import shutil

    import psutil

    def read() -> float:
        gc.collect()
        if shutil.which("nvidia-smi"):  # what this process uses on the card
            command = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
            rows = [row.split(",") for row in subprocess.check_output(command, text=True).splitlines()]
            megabytes = [int(row[1]) for row in rows if row[0] == str(os.getpid()) and row[1].strip().isdigit()]
            if megabytes:
                return float(sum(megabytes))
        return float(psutil.Process().memory_info().rss) / 2**20

    weight = numpy().zeros((4096, 4096), "float32")
    data = make_model("large (float[1, 4096] x) => (float[1, 4096] y) { y = MatMul (x, w) }", w=weight)
    figures = []
    for _ in range(3):
        before = read()
        session = open_session(data, device)
        session.evaluate_features({"x": numpy().zeros((1, 4096), "float32")})
        during = read()
        session.close()
        del session
        figures.append((before, during, read()))
    text = ", ".join(f"{before:.0f} → {during:.0f} → {after:.0f}" for before, during, after in figures)
    _, during, after = figures[-1]  # the first time, the device's own memory is added
    assert during - after > 32, f"weights of 64 MiB stay after close: {text} MiB"
    return f"weights of 64 MiB three times, MiB before, open, closed: {text}"


def step_event_loop(device: Any) -> str:
    session, make = open_long(device)
    inputs = make(find_count(session, make, 1.0))

    async def tick() -> tuple[int, float]:
        task = asyncio.ensure_future(_await(session.evaluate_features_async(inputs)))
        count, longest, last = 0, 0.0, time.perf_counter()
        while not task.done():
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            count, longest, last = count + 1, max(longest, now - last), now
        task.result()
        return count, longest

    async def _await(operation: Any) -> Any:
        return await operation

    count, longest = asyncio.run(tick())
    assert count > 3, f"the loop ran {count} times during an evaluation of a second"
    return f"{count} ticks of 5 ms during an evaluation; the longest took {longest * 1e3:.0f} ms"


def step_timeout(device: Any) -> str:
    from winml_py import EvaluationTimeoutError

    session, make = open_long(device)
    inputs = make(find_count(session, make, 4.0))
    began = time.perf_counter()
    try:
        session.evaluate_features(inputs, timeout=0.2)
    except EvaluationTimeoutError:
        took = time.perf_counter() - began
    else:
        raise AssertionError(f"no timeout, but a result after {time.perf_counter() - began:.1f} s")
    few = make(3)
    came = session.evaluate_features(few).outputs["y"].to_numpy()
    numpy().testing.assert_allclose(came, few["x"], rtol=1e-3)
    return f"a run of about 4 s with a timeout of 0.2 s ended after {took:.2f} s; the next one was right"


def step_out_of_memory(device: Any) -> str:
    from winml_py import WinMLError

    if device._device.is_software or not device.memory:
        raise Skip("the device's memory is the machine's" if device._device.is_software else "its memory is unknown")
    side = int((device.memory * 2 / 4) ** 0.5)
    model = make_model(
        "huge (float[n, 1] x, float[1, n] z) => (float y) {"
        " a = Mul (x, z) b = Exp (a) y = ReduceSum <keepdims = 0> (b) }"
    )
    session = open_session(model, device)
    try:
        session.evaluate_features({"x": numpy().zeros((side, 1), "float32"), "z": numpy().zeros((1, side), "float32")})
    except WinMLError as error:
        text = str(error).splitlines()[0][:200]
    else:
        raise AssertionError(f"twice the device's memory, {device.memory * 2} bytes, and no error")
    small = {"x": numpy().zeros((3, 1), "float32"), "z": numpy().zeros((1, 3), "float32")}
    assert float(session.evaluate_features(small).outputs["y"].to_numpy()) == 9
    return f"twice its memory raises `{text}`; the next evaluation was right"


def step_caches(device: Any) -> str:
    keys = {
        "TensorrtExecutionProvider": ("trt_engine_cache_path", {"trt_engine_cache_enable": True}),
        "NvTensorRTRTXExecutionProvider": ("nv_runtime_cache_path", {}),
    }
    import onnxruntime

    from winml_py import LearningModelDevice

    if device.provider not in keys:
        if "TensorrtExecutionProvider" not in onnxruntime.get_available_providers():
            raise Skip("neither the engine nor this build of ONNX Runtime has TensorRT")
        device = LearningModelDevice.find("tensorrt")
    key, more = keys[device.provider]
    seconds, picture = [], {"image": PICTURES / "shapes.png"}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for _ in range(2):
            began = time.perf_counter()
            session = open_session(MODELS / "shapes.onnx", device, provider_options={key: folder, **more})
            session.evaluate_features(picture)
            seconds.append(time.perf_counter() - began)
            session.close()
        count = len(list(Path(folder).rglob("*")))
    assert count, f"{key} has no files"
    return f"{device.provider}: {seconds[0]:.2f} s, then {seconds[1]:.2f} s with its {count} files in {key}"


def step_benchmark(device: Any) -> str:
    if device._device.is_software:
        raise Skip("figures of an emulated device say nothing about a card")
    upload(open_session(neg(), device), [1, 2, 3])  # it compares with I/O binding by hand
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gpu.json")
        command = [sys.executable, ROOT / "benchmarks" / "gpu.py", "--device", device.provider, "--json", path]
        subprocess.run(command, check=True, cwd=ROOT, stdout=sys.stderr)
        rows = json.loads(path.read_text())["tables"]["gpu"]
    return "; ".join(f"{row['model']}, {row['way']}: {row['ms']:.2f} ms ({row['times as fast']:.2f})" for row in rows)


STEPS: dict[str, tuple[Callable[[Any], str], float]] = {
    "a session": (step_session, 60),
    "digits": (step_digits, 60),
    "shapes": (step_shapes, 60),
    "float16": (step_float16, 60),
    "one session in threads": (step_lock, 60),
    "four sessions in threads": (step_sessions, 60),
    "arrays that stay on the device": (step_arrays, 30),
    "CuPy": (step_cupy, 60),
    "DLPack": (step_dlpack, 30),
    "a picture in device memory": (step_picture, 30),
    "captured graphs": (step_graphs, 30),
    "two streams": (step_streams, 60),
    "memory after close": (step_dispose, 60),
    "an event loop's ticks": (step_event_loop, 60),
    "a timeout": (step_timeout, 60),
    "out of memory": (step_out_of_memory, 60),
    "caches of TensorRT": (step_caches, 240),
    "all models": (step_all_models, 120),
    "benchmarks/gpu.py": (step_benchmark, 300),
}
"""The steps after the device, in order of importance, and the seconds that each may take."""


# The process that runs the steps.


class Outcome(NamedTuple):
    step: str
    outcome: str
    seconds: float
    text: str


def run_step(name: str, arguments: list[str], limit: float, late: str = "") -> tuple[Outcome, dict[str, Any]]:
    """Runs a step in a process of its own, which is ended with its children at the limit.

    The step has failed then, or, if there is a reason for being `late`, is skipped with it.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, open(Path(folder, "log"), "w+b") as log:
        answer = Path(folder, "answer.json")
        command = [sys.executable, __file__, "--step", name, "--answer", str(answer), *arguments]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_with_children(process)
        seconds = time.monotonic() - began
        if answer.exists():
            facts = json.loads(answer.read_text())
            return Outcome(name, facts["outcome"], seconds, facts["text"]), facts
        if code is None and late:
            return Outcome(name, "skipped", seconds, late), {}
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()[-3:]
        reason = f"it took more than {limit:.0f} s and was ended" if code is None else f"its process ended with {code}"
        return Outcome(name, "failed", seconds, " | ".join([reason, *lines])), {}


def end_with_children(process: subprocess.Popen[bytes]) -> None:
    import psutil

    if process.poll() is None:
        for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait()


def answer_step(options: argparse.Namespace) -> None:
    """The step's own process: writes the outcome at once, so that a crash at the end does not lose it."""
    sys.path.insert(0, str(ROOT))
    facts: dict[str, Any] = {}
    try:
        if options.step == "a device":
            facts = find_device(options.engine)
            text = f"{facts['found'].name}, by {facts['found'].provider}"
        else:
            from winml_py import LearningModelDevice, LearningModelDeviceKind
            from winml_py.core.runtime.providers.provider import ProviderDevice

            found = json.loads(options.found)
            found["identity"] = tuple(found["identity"])
            native = ProviderDevice(**found)
            text = STEPS[options.step][0](LearningModelDevice(LearningModelDeviceKind.DIRECTX, _device=native))
        outcome = "done"
    except Skip as error:
        outcome, text = "skipped", str(error)
    except Exception as error:
        import traceback

        traceback.print_exc()
        outcome, text = "failed", f"{type(error).__name__}: {error}".splitlines()[0]
    if "found" in facts:
        facts["found"] = facts["found"]._asdict()
    write(options.answer, json.dumps({**facts, "outcome": outcome, "text": text}))
    os._exit(0)  # without the drivers' destructors, which are not what the step tests


def write(path: Path, text: str) -> None:
    """Writes a file at once or not at all."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def write_report(folder: Path, facts: dict[str, Any], outcomes: list[Outcome]) -> None:
    write(folder / "card.json", json.dumps({**facts, "steps": [each._asdict() for each in outcomes]}, indent=2) + "\n")
    counts = {each: sum(outcome.outcome == each for outcome in outcomes) for each in ("done", "skipped", "failed")}
    lines = [f"# {facts.get('device', 'No card')}", ""]
    summary = ", ".join(f"{count} {each}" for each, count in counts.items() if count)
    lines += [f"{summary}, of {len(STEPS) + 1} steps.", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {escape(value)} |" for name, value in facts.items()), ""]
    lines += ["| step | outcome | seconds | what it showed |", "| --- | --- | ---: | --- |"]
    for each in outcomes:
        outcome = f"**{each.outcome}**" if each.outcome == "failed" else each.outcome
        lines.append(f"| {each.step} | {outcome} | {each.seconds:.1f} | {escape(each.text)} |")
    write(folder / "card.md", "\n".join(lines) + "\n")


def escape(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def print_wheels(engine: str) -> None:
    """Says what an engine needs and whether it is installed; of a name that is not in the table, what each needs."""
    from importlib import metadata

    installed = {str(found.metadata["Name"]).lower().replace("_", "-") for found in metadata.distributions()}
    for name, wheels in {engine: WHEELS[engine]}.items() if engine in WHEELS else WHEELS.items():
        print(f"{name} needs these wheels, {sum(wheels.values())} MB, beside winml-py and its requirements:")
        for wheel, size in wheels.items():
            print(f"    {wheel}: {size} MB{', installed' if wheel in installed else ''}")
        print(f"    where there is an index: pip download --only-binary :all: -d wheels {' '.join(wheels)}")


def main() -> int:
    """Runs the steps; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="gpu")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--output", type=Path, default=Path("card"))
    parser.add_argument("--wheels", action="store_true")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--found", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        answer_step(options)
    print_wheels(options.engine)
    if options.wheels:
        return 0
    end = time.monotonic() + options.minutes * 60
    options.output.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "system": f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores",
    }
    first, answer = run_step("a device", ["--engine", options.engine], min(90, options.minutes * 60))
    outcomes = [first]
    facts = {**answer.get("facts", {}), **facts}
    print(f"{first.outcome:8} {first.step}: {first.text}", flush=True)
    write_report(options.output, facts, outcomes)
    for name, (_, limit) in STEPS.items() if first.outcome == "done" else ():
        left = end - time.monotonic()
        late = f"the {options.minutes:g} minutes were over" if left < limit else ""
        if left < 3:
            outcome = Outcome(name, "skipped", 0, late)
        else:
            if answer["found"]["is_software"] and not late:
                late = f"it took more than {limit:.0f} s, on a processor that emulates a device"
            outcome, _ = run_step(name, ["--found", json.dumps(answer["found"])], min(limit, left), late)
        outcomes.append(outcome)
        print(f"{outcome.outcome:8} {name} ({outcome.seconds:.1f} s): {outcome.text}", flush=True)
        write_report(options.output, facts, outcomes)
    print(f"Written to {options.output / 'card.md'} and {options.output / 'card.json'}")
    return int(any(outcome.outcome == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
