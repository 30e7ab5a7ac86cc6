"""A service of samples/ under load, on this machine's loopback: are good requests right, are bad ones refused, and what
does a request cost?

    pip install fastapi 'uvicorn[standard]' litserve
    python benchmarks/service.py fastapi [--json FILE]
    python benchmarks/service.py litserve [--json FILE]

64 clients send 2,000 requests, each on a connection of its own. Nine of ten hold a JPEG of 1080p for a squeezenet. The
others are hostile, in turn: no picture; a PNG that claims 100 megapixels; half a body, and then silence; gone in the
middle of the body, or right after it. The answers of good requests are compared with those of `evaluate_many` on the
same pictures. "CPU" is the processor time of the service, all its processes and the hostile requests included, for each
good request, over that of `evaluate_many` for each picture, in a process that runs before and after. "Growth" is what
the service holds in memory at the end, over what it held after a quarter of the requests.

The bars: no good request is wrong, no bad one is accepted, growth of at most 1.1, CPU of at most 1.25.
"""

import asyncio
import io
import json
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import psutil
from _measure import arguments, report
from _models import light
from end_to_end import CONTRACT, photograph
from PIL import Image, ImageEnhance

from winml_py.authoring import write_contract

SAMPLES = Path(__file__).parent.parent / "samples"
PATHS = {"fastapi": "/", "litserve": "/predict"}
HOSTILE = ("no picture", "100 megapixels", "half a body", "gone in the body", "gone after it")
PICTURES, PATIENCE = 8, 60.0

MANY = """
import json, sys, time
from pathlib import Path
from winml_py import LearningModel, LearningModelSession, LearningModelSessionOptions
options = LearningModelSessionOptions()
options.intra_op_num_threads, options.batch_size_override = 1, 0
session = LearningModelSession(LearningModel.load(sys.argv[1]), None, options)
pictures = [Path(path).read_bytes() for path in sys.argv[3:]]
answers = [result.top_k(1)[0] for result in session.evaluate_many(pictures, fast_decode=True)]
items = pictures * (int(sys.argv[2]) // len(pictures))
started = time.process_time()
for result in session.evaluate_many(items, fast_decode=True):
    result.top_k(3)
print(json.dumps([(time.process_time() - started) / len(items), [(best.index, best.score) for best in answers]]))
"""


class Request(NamedTuple):
    """What a client sends."""

    kind: str
    body: bytes
    answer: Any = None


def pictures(folder: Path) -> list[Path]:
    """Different JPEG files of 1080p."""
    with Image.open(io.BytesIO(photograph())) as image:
        paths = [folder / f"{number}.jpg" for number in range(PICTURES)]
        for number, path in enumerate(paths):
            ImageEnhance.Brightness(image.rotate(45 * number)).enhance(0.5 + number / 8).save(path, quality=85)
    return paths


def claiming(width: int, height: int) -> bytes:
    """A PNG whose head claims so many pixels, and that has none."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(bytes(64))
    chunks = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (head, data, b"IEND")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def requests(count: int, bodies: list[bytes], answers: list[Any]) -> list[Request]:
    """Every tenth is hostile."""
    noise, bomb = np.random.default_rng(0).bytes(50_000), claiming(10_000, 10_000)
    made = []
    for number in range(count):
        which = number % len(bodies)
        if number % 10 != 9:
            made.append(Request("good", bodies[which], answers[which]))
            continue
        kind = HOSTILE[number // 10 % len(HOSTILE)]
        made.append(Request(kind, {HOSTILE[0]: noise, HOSTILE[1]: bomb}.get(kind, bodies[which])))
    return made


async def status_and_body(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    whole = await reader.read()
    head, _, body = whole.partition(b"\r\n\r\n")
    return (int(head.split(b" ")[1]) if head else 0), body


async def send(port: int, path: str, request: Request) -> str:
    """Sends a request; says what came of it: right, wrong, refused, accepted, or dropped where nobody waited."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nConnection: close\r\n"
        body = request.body[: len(request.body) // 2] if request.kind in HOSTILE[2:4] else request.body
        writer.write(f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode() + body)
        with suppress(ConnectionError):  # it may be refused before it is sent whole
            await writer.drain()
        if request.kind.startswith("gone"):
            writer.transport.abort()
            return "dropped"
        async with asyncio.timeout(PATIENCE):
            status, answer = await status_and_body(reader)
    except (ConnectionError, TimeoutError) as error:
        return (
            "wrong" if request.kind == "good" else "refused" if isinstance(error, ConnectionError) else "not answered"
        )
    finally:
        writer.close()
    if request.kind != "good":
        return "accepted" if status < 400 else "refused" if status < 500 else "an error of the service"
    return "right" if status == 200 and is_right(json.loads(answer)[0], request.answer) else "wrong"


def is_right(best: Any, expected: Any) -> bool:
    return bool(best["index"] == expected[0] and abs(best["score"] - expected[1]) <= 1e-4 * abs(expected[1]))


class Service:
    """A service of samples/, in processes of its own."""

    def __init__(self, name: str, model: Path, port: int) -> None:
        command = [sys.executable, str(SAMPLES / f"service_{name}.py"), str(port), str(model)]
        self.process = psutil.Popen(command, stdout=subprocess.DEVNULL)
        self.port = port

    def family(self) -> list[psutil.Process]:
        """Its processes."""
        return [psutil.Process(self.process.pid), *self.process.children(recursive=True)]

    def seconds(self) -> float:
        """The processor time of all its processes."""
        return sum(sum(one.cpu_times()[:2]) for one in self.family())

    def held(self) -> int:
        """Bytes of memory that its processes do not share with others."""
        return sum(one.memory_full_info().uss for one in self.family())

    def close(self) -> float:
        """Asks it to stop; gives the seconds that it took, and leaves no process behind."""
        family, started = self.family(), time.monotonic()
        self.process.terminate()
        _, alive = psutil.wait_procs(family, timeout=30)
        for one in alive:
            one.kill()
        return time.monotonic() - started if not alive else float("inf")


@contextmanager
def started(name: str, model: Path, body: bytes) -> Iterator[tuple[Service, list[float]]]:
    """A service that has answered; how long it took to stop is in the list afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service, stopped = Service(name, model, port), []
    try:
        until = time.monotonic() + 120
        while asyncio.run(first(port, PATHS[name], body)) != 200:
            if time.monotonic() > until or service.process.poll() is not None:
                raise RuntimeError("the service did not start; its message stands above")
            time.sleep(0.2)
        yield service, stopped
    finally:
        stopped.append(service.close())


async def first(port: int, path: str, body: bytes) -> int:
    with suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, _ = await status_and_body(reader)
        writer.close()
        return status
    return 0


async def load(service: Service, path: str, wanted: list[Request], clients: int) -> tuple[Counter[str], list[int]]:
    """What came of all requests, and the memory after each quarter of them."""
    outcomes: Counter[str] = Counter()
    held, todo = [], iter(enumerate(wanted))

    async def client() -> None:
        for number, request in todo:
            outcome = await send(service.port, path, request)
            outcomes[f"{'good' if request.kind == 'good' else 'bad'}: {outcome}"] += 1
            if (number + 1) % (len(wanted) // 4) == 0:
                held.append(await asyncio.to_thread(service.held))

    await asyncio.gather(*(client() for _ in range(clients)))
    return outcomes, held


def many(model: Path, count: int, files: list[Path]) -> tuple[float, list[Any]]:
    """Seconds of the processor for a picture, and the answers, by `evaluate_many` in a process of its own."""
    command = [sys.executable, "-c", MANY, str(model), str(count), *map(str, files)]
    seconds, answers = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return seconds, answers


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("service", choices=list(PATHS))
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(light("squeezenet"), folder / "plain.onnx")
        write_contract(folder / "plain.onnx", folder / "model.onnx", CONTRACT)
        files = pictures(folder)
        bodies = [file.read_bytes() for file in files]
        before, answers = many(folder / "model.onnx", 1000, files)
        wanted = requests(options.requests, bodies, answers)
        with started(options.service, folder / "model.onnx", bodies[0]) as (service, stopped):
            asyncio.run(load(service, PATHS[options.service], wanted[: len(wanted) // 10], options.clients))  # warm
            spent, began = service.seconds(), time.monotonic()
            outcomes, held = asyncio.run(load(service, PATHS[options.service], wanted, options.clients))
            seconds, spent = time.monotonic() - began, service.seconds() - spent
        after, _ = many(folder / "model.onnx", 1000, files)
    good = sum(count for outcome, count in outcomes.items() if outcome.startswith("good"))
    rows = [{"requests": outcome, "count": count} for outcome, count in sorted(outcomes.items())]
    figures = {
        "KB of a picture": statistics.mean(map(len, bodies)) / 1024,
        "ms of processor for a picture, evaluate_many": statistics.mean([before, after]) * 1e3,
        "ms of processor for a good request": spent / good * 1e3,
        "CPU": spent / good / statistics.mean([before, after]),
        "MB held after a quarter": held[0] / 1e6,
        "MB held at the end": held[-1] / 1e6,
        "growth": held[-1] / held[0],
        "good requests a second": good / seconds,
        "seconds to stop": stopped[0],
    }
    report(f"service_{options.service}", rows, options.json, figures)


if __name__ == "__main__":
    main()
