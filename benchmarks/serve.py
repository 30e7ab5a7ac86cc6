"""`winml-py serve` and handwritten services, on this machine's loopback: requests a second, and the time of each.

    pip install '.[serve]' litserve
    python benchmarks/serve.py [--json FILE] [--seconds S] [--rounds N] [--clients N...]

JPEGs of 1080p, decoded whole, for a squeezenet with a thread for each evaluation; 1, 8 and 64 clients on connections
that stay. (a) "starlette" is Starlette with Pillow, numpy and ONNX Runtime in a thread pool; "litserve" does
the same in LitServe. Services take turns, and those whose turn it is not are suspended. First the best classes are
compared. "CPU ms" is the service's processor time for a request, which other programs change least.
The overhead is that of `serve` beside bare Starlette with ONNX Runtime in its thread pool, on a model of about 1 ms,
whose input comes as bytes.

The targets: 1.3 times the requests of (a) at every number of clients, p99 at 64 clients no worse, an overhead of at
most 0.5 ms.
"""

import asyncio
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
import onnxruntime
import psutil
from _measure import arguments, at_least, at_most, report
from _models import light
from end_to_end import CONTRACT, photograph, usual
from onnx import helper, numpy_helper
from PIL import Image, ImageEnhance

from winml_py.authoring import write_contract

WAYS, CLIENTS = ("serve", "starlette", "litserve"), (1, 8, 64)
HEADER = "Inference-Header-Content-Length"


# Services by hand, each in a process of its own.


def make_session(model: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def classify(session: onnxruntime.InferenceSession, body: bytes) -> list[dict[str, Any]]:
    scores = session.run(None, {session.get_inputs()[0].name: usual(body)})[0].ravel()
    return [{"index": int(index), "value": float(scores[index])} for index in scores.argsort()[::-1][:5]]


def starlette_service(model: str, port: int) -> None:
    """By hand: pictures at /, tensors as bytes at /raw."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    session, threads = make_session(model), ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    name, shape = session.get_inputs()[0].name, session.get_inputs()[0].shape

    def run_raw(body: bytes) -> bytes:
        result: bytes = session.run(None, {name: np.frombuffer(body, np.float32).reshape(shape)})[0].tobytes()
        return result

    async def picture(request: Request) -> Response:
        body = await request.body()
        return JSONResponse(await asyncio.get_running_loop().run_in_executor(threads, classify, session, body))

    async def raw(request: Request) -> Response:
        body = await request.body()
        return Response(await asyncio.get_running_loop().run_in_executor(threads, run_raw, body))

    app = Starlette(routes=[Route("/", picture, methods=["POST"]), Route("/raw", raw, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error", loop="asyncio", http="h11")


if sys.argv[1:2] == ["litserve"]:  # its workers import this file, too
    import litserve
    from fastapi import Depends, Request

    async def body_of(request: Request) -> bytes:
        return await request.body()

    class _Api(litserve.LitAPI):
        def __init__(self, model: str) -> None:
            super().__init__()
            self.path = model

        def setup(self, device: str) -> None:
            self.session = make_session(self.path)

        def decode_request(self, request: Annotated[bytes, Depends(body_of)]) -> bytes:
            return request

        def predict(self, x: bytes) -> list[dict[str, Any]]:
            return classify(self.session, x)

        def encode_response(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return output


def litserve_service(model: str, port: int) -> None:
    server = litserve.LitServer(_Api(model), accelerator="cpu", workers_per_device=len(os.sched_getaffinity(0)))
    server.run(host="127.0.0.1", port=port, log_level="error", generate_client_file=False)


class Running:
    """A service in its own processes, and the path of its requests."""

    def __init__(self, way: str, model: Path, path: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.path = path
        serve = ["-m", "winml_py", "serve", f"model={model}", "--port", str(self.port)]
        command = serve if way == "serve" else [__file__, way, str(model), str(self.port)]
        self.process = psutil.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def family(self) -> list[psutil.Process]:
        """Its processes."""
        return [psutil.Process(self.process.pid), *self.process.children(recursive=True)]

    def seconds(self) -> float:
        """The processor time of all of them."""
        return sum(sum(one.cpu_times()[:2]) for one in self.family())

    def send_all(self, number: int) -> None:
        """Sends a signal to all of them."""
        for one in self.family():
            one.send_signal(number)

    def close(self) -> None:
        """Ends them."""
        family = self.family()
        self.send_all(signal.SIGCONT)
        for one in family:
            one.terminate()
        for one in psutil.wait_procs(family, timeout=20)[1]:
            one.kill()


@contextmanager
def running(ways: dict[str, tuple[Path, str]]) -> Iterator[dict[str, Running]]:
    services: dict[str, Running] = {}
    try:
        for way, (model, path) in ways.items():
            services[way] = Running(way, model, path)
        yield services
    finally:
        for one in services.values():
            one.close()


# Clients.


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """The body of the answer, on a connection that stays."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(head.decode())
    length = int(head.partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0])
    return await reader.readexactly(length)


def request(service: Running, body: bytes, header: str = "") -> bytes:
    head = f"POST {service.path} HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: image/jpeg\r\n{header}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def load(port: int, requests: list[bytes], clients: int, seconds: float) -> list[float]:
    """The seconds of each request that began in time."""
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        while (began := time.perf_counter()) < until:
            number += 1
            await ask(reader, writer, requests[number % len(requests)])
            times.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times


async def first(service: Running, message: bytes) -> bytes:
    for _ in range(600):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", service.port, limit=1 << 24)
            answer = await ask(reader, writer, message)
            writer.close()
            return answer
        except (OSError, RuntimeError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.1)
    raise RuntimeError("a service did not start")


def best(answer: bytes) -> tuple[int, float]:
    facts = json.loads(answer)
    if isinstance(facts, dict):
        (output,) = facts["results"][0]["outputs"].values()
        facts = output["top"]
    return facts[0]["index"], facts[0]["value"]


def pictures() -> list[bytes]:
    found = []
    with Image.open(io.BytesIO(photograph())) as image:
        for number in range(8):
            file = io.BytesIO()
            ImageEnhance.Brightness(image.rotate(45 * number)).enhance(0.5 + number / 8).save(file, "JPEG", quality=85)
            found.append(file.getvalue())
    return found


def compare_pictures(folder: Path, rounds: int, seconds: float, numbers: list[int]) -> list[dict[str, Any]]:
    """Requests a second and their times, by way and clients."""
    onnx.save(light("squeezenet"), folder / "plain.onnx")
    write_contract(folder / "plain.onnx", folder / "model.onnx", CONTRACT)
    bodies = pictures()
    paths = {"serve": "/models/model", "starlette": "/", "litserve": "/predict"}
    times: dict[tuple[str, int], list[float]] = {}
    rates: dict[tuple[str, int], list[float]] = {}
    theirs: dict[tuple[str, int], list[float]] = {}
    with running({way: (folder / "model.onnx", paths[way]) for way in WAYS}) as services:
        messages = {way: [request(one, body) for body in bodies] for way, one in services.items()}
        answers = {
            way: [best(asyncio.run(first(one, each))) for each in messages[way]] for way, one in services.items()
        }
        for way in WAYS[1:]:
            for ours, other in zip(answers["serve"], answers[way], strict=True):
                if ours[0] != other[0] or abs(ours[1] - other[1]) > 0.05 * abs(other[1]):
                    raise RuntimeError(f"{way} answers {other}, serve {ours}")
        for one in services.values():
            one.send_all(signal.SIGSTOP)
        for index in range(rounds):
            for clients in numbers:
                for way in WAYS[index % 3 :] + WAYS[: index % 3]:
                    service = services[way]
                    service.send_all(signal.SIGCONT)
                    asyncio.run(load(service.port, messages[way], clients, 0.3))
                    began, used = time.perf_counter(), service.seconds()
                    taken = asyncio.run(load(service.port, messages[way], clients, seconds))
                    key, count = (way, clients), len(taken)
                    times.setdefault(key, []).extend(taken)
                    rates.setdefault(key, []).append(count / (time.perf_counter() - began))
                    theirs.setdefault(key, []).append((service.seconds() - used) / count)
                    service.send_all(signal.SIGSTOP)
    rows: list[dict[str, Any]] = []
    for clients in numbers:
        tails = {way: statistics.quantiles(times[way, clients], n=100)[98] for way in WAYS}
        for way in WAYS:
            key, pairs = (way, clients), zip(rates[way, clients], rates["starlette", clients], strict=True)
            rows.append(
                {
                    "clients": clients,
                    "way": way,
                    "requests/s": statistics.median(rates[key]),
                    "x handwritten": statistics.median(one / other for one, other in pairs),
                    "CPU ms": statistics.median(theirs[key]) * 1e3,
                    "p99 ms": tails[way] * 1e3,
                    "p99 x handwritten": tails[way] / tails["starlette"],
                }
            )
    return rows


def small_model(path: Path, layers: int = 3) -> int:
    """Writes a model that takes about 1 ms on a thread; gives the bytes of its input."""
    rng, nodes = np.random.default_rng(0), []
    weights = [rng.normal(0, 0.02, (1536, 1536)).astype(np.float32) for _ in range(layers)]
    for index in range(layers):
        nodes.append(helper.make_node("MatMul", [f"h{index}" if index else "x", f"w{index}"], [f"m{index}"]))
        nodes.append(helper.make_node("Tanh", [f"m{index}"], ["y" if index == layers - 1 else f"h{index + 1}"]))
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 1536]) for name in "xy"]
    tensors = [numpy_helper.from_array(weight, f"w{index}") for index, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return 4 * 4 * 1536


def compare_overhead(folder: Path, rounds: int) -> dict[str, float]:
    size = small_model(folder / "small.onnx")
    tensor = np.random.default_rng(1).normal(size=(4, 1536)).astype(np.float32)
    facts = {
        "inputs": [{"name": "x", "shape": [4, 1536], "datatype": "FP32", "parameters": {"binary_data_size": size}}]
    }
    head = json.dumps(facts | {"parameters": {"binary_data_output": True}}).encode()
    ways = {"serve": "/v2/models/model/infer", "starlette": "/raw"}
    medians: dict[str, list[float]] = {way: [] for way in ways}
    with running({way: (folder / "small.onnx", path) for way, path in ways.items()}) as services:
        infer = request(services["serve"], head + tensor.tobytes(), f"{HEADER}: {len(head)}\r\n")
        messages = {"serve": infer, "starlette": request(services["starlette"], tensor.tobytes())}
        ours, theirs = (asyncio.run(first(services[way], messages[way])) for way in ways)
        if not np.allclose(
            np.frombuffer(ours[-len(theirs) :], np.float32), np.frombuffer(theirs, np.float32), atol=1e-5
        ):
            raise RuntimeError("the outputs differ")
        for _ in range(rounds * 4):
            for way, service in services.items():
                taken = asyncio.run(load(service.port, [messages[way]], 1, 0.7))
                medians[way].append(statistics.median(taken))
    session = make_session(str(folder / "small.onnx"))
    times = []
    for _ in range(300):
        began = time.thread_time()
        session.run(None, {"x": tensor})
        times.append(time.thread_time() - began)
    apart = statistics.median(one - other for one, other in zip(medians["serve"], medians["starlette"], strict=True))
    return {
        "small model, CPU ms": statistics.median(times) * 1e3,
        "bare Starlette, ms": statistics.median(medians["starlette"]) * 1e3,
        "serve, ms": statistics.median(medians["serve"]) * 1e3,
        "overhead, ms": apart * 1e3,
    }


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in WAYS[1:]:
        {"starlette": starlette_service, "litserve": litserve_service}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
        return
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each turn")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        overhead = compare_overhead(Path(name), options.rounds)
        rows = compare_pictures(Path(name), options.rounds, options.seconds, options.clients)
    ours = [row for row in rows if row["way"] == "serve"]
    bars = [
        at_least("`serve` requests, x handwritten", min(row["x handwritten"] for row in ours), 1.3),
        at_most(f"p99 at {ours[-1]['clients']} clients, x handwritten", ours[-1]["p99 x handwritten"], 1),
        at_most("overhead, ms", overhead["overhead, ms"], 0.5),
    ]
    report({"serve": rows, "serve-overhead": [overhead]}, options.json, bars)


if __name__ == "__main__":
    main()
