"""Sends 10,000 good requests to `winml-py serve` among hostile ones, and kills isolated engines in the middle.

    python tests/tools/serve_hostile.py [--requests N] [--kills N] [--clients N]

Good requests must be right, also those to a model whose file is replaced again and again. Bad ones get a 4xx with words
of ours, a model's failure 500, or what says that it took too long. Meanwhile, the service answers about its health
within half a second, and its memory stays below the bound of docs/security.md. Afterwards nothing has grown: memory,
threads, descriptors, processes. SIGTERM in the middle of an attack ends the service within ten seconds.

Then an isolated engine is killed while it evaluates: only its own requests may fail, with 503. Last, a model of 190 MB
is let go when idle: the memory must be within 10 % of what it was before.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

import numpy as np
import psutil
from onnx import helper
from PIL import Image

from helpers.damaged_files import make_png_claiming
from helpers.models import INT64, chain_matrices, counting_loop, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.serving import Service, run_service
from winml_py import LearningModelSessionOptions

SEVEN = (PICTURES / "seven.png").read_bytes()
STILL = 10
"""How many descriptors more are no growth: connections that are being closed."""

SECONDS, PIXELS, BYTES, WAITING = 7, 1_000_000, 4 << 20, 96
LIMITS = ("--max-seconds", SECONDS, "--max-pixels", PIXELS, "--max-bytes", BYTES, "--max-waiting", WAITING)
BOUND = (WAITING * 2 * BYTES + LearningModelSessionOptions().intra_op_num_threads * 40 * PIXELS) / 1e6 + 150
"""MB, by docs/security.md; the models' own memory is next to nothing."""


def make_png(width: int, height: int) -> bytes:
    """A picture of one colour: some kB, however many pixels it has."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), (200, 90, 20)).save(file, "PNG")
    return file.getvalue()


def make_scans(side: int, count: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again."""
    file = io.BytesIO()
    Image.new("RGB", (side, side)).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2] * count + content[-2:]


def make_icon(side: int) -> bytes:
    """An icon that claims 16x16, and holds a PNG of another size."""
    picture = make_png(side, side)
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(picture), 22) + picture


SCANS, ICON, TALL, LARGE = make_scans(990, 7000), make_icon(4000), make_png(16, 60_000), make_png(990, 990)


class Client:
    """Sends requests to one port, each on its own connection."""

    def __init__(self, port: int) -> None:
        self.port = port

    def message(self, path: str, body: bytes, host: str = "", length: int | None = None, headers: str = "") -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: {host or f'localhost:{self.port}'}\r\nConnection: close\r\n{headers}"
        return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body

    async def send(self, message: bytes, leaves_after: float | None = None) -> tuple[int, bytes]:
        """The status and the body of the answer; 0 if there is none."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(message)
            if leaves_after is not None:
                await asyncio.sleep(leaves_after)
                writer.transport.abort()
                return 0, b""
            with suppress(ConnectionError):  # it may be refused before it is sent whole
                await writer.drain()
            head, _, body = (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n\r\n")
            return int(head.split()[1]) if head else 0, body
        finally:
            writer.close()


def counting(steps: int) -> bytes:
    inputs = [{"name": "count", "datatype": "INT64", "shape": [], "data": [steps]}]
    return json.dumps({"inputs": [*inputs, {"name": "x", "datatype": "FP32", "shape": [], "data": [0]}]}).encode()


def pack(*files: bytes) -> tuple[bytes, str]:
    """A request with pictures, and the header for it."""
    tail = b"".join(len(file).to_bytes(4, "little") + file for file in files)
    facts = {"name": "image", "datatype": "BYTES", "shape": [len(files)]}
    head = json.dumps({"inputs": [facts | {"parameters": {"binary_data_size": len(tail)}}]}).encode()
    return head + tail, f"Inference-Header-Content-Length: {len(head)}\r\n"


KINDS = ["noise", "bomb", "cut", "half", "host", "large", "type", "json", "head", "leaves", "fails", "lengths"]
KINDS += ["parameter", "scans", "icon", "tall", "batch", "wrong batch", "lists", "numbers", "texts", "unread"]
KINDS += ["large answer"]


def hostile(client: Client, rng: random.Random) -> tuple[str, bytes, float | None, set[int]]:
    """The kind of a request, the request, after how long it leaves, and the statuses that are right."""
    kind = rng.choice(KINDS)
    path, infer = "/models/digits", "/v2/models/digits/infer"
    wrong = {"inputs": [{"name": "image", "datatype": "INT32", "shape": [1], "data": [1]}]}
    match kind:
        case "noise":
            return kind, client.message(path, rng.randbytes(5000)), None, {415}
        case "bomb":
            return kind, client.message(path, make_png_claiming(20_000, 20_000)), None, {415}
        case "cut":
            return kind, client.message(path, SEVEN[: len(SEVEN) // 2]), None, {415}
        case "half":
            return kind, client.message(path, SEVEN[:50], length=len(SEVEN)), None, {408}
        case "host":
            return kind, client.message(path, SEVEN, host="evil.example"), None, {421}
        case "large":
            return kind, client.message(path, b"", length=1 << 40), None, {413}
        case "type":
            return kind, client.message(infer, json.dumps(wrong).encode()), None, {400}
        case "json":
            return kind, client.message(infer, b'{"inputs": ' + b"[" * rng.randrange(5000)), None, {400}
        case "head":
            return kind, b"BREW /coffee HTCPCP\r\n\r\n" + rng.randbytes(50), None, {400}
        case "leaves":
            message = client.message("/v2/models/loop/infer", counting(1 << 40))
            return kind, message, rng.random() / 5, {0}
        case "lengths":
            return kind, client.message(path, b"0\r\n\r\n", headers="Transfer-Encoding: chunked\r\n"), None, {400}
        case "parameter":
            return kind, client.message(f"{path}?topk=3", SEVEN), None, {400}
        case "scans":  # what is decoded may take long, and is given up
            return kind, client.message(path, SCANS), None, {200, 415, 503, 504}
        case "icon":
            return kind, client.message(path, ICON), None, {415}
        case "tall":
            return kind, client.message(path, TALL), None, {200, 415}
        case "batch" | "wrong batch":
            body, headers = pack(*[LARGE] * 60)
            name = "digits_batch" if kind == "batch" else "digits"
            message = client.message(f"/v2/models/{name}/infer", body, headers=headers)
            return kind, message, None, {200, 503} if kind == "batch" else {400}
        case "lists" | "numbers":
            part = b"[0]," if kind == "lists" else b"1.5,"
            head = b'{"inputs": [{"name": "image", "datatype": "FP32", "shape": [1000], "data": ['
            return kind, client.message(infer, head + part * (BYTES // 4 - 100) + b"0]}]}"), None, {400}
        case "texts":
            body, headers = pack(*[b""] * 120_000)
            return kind, client.message(infer, body, headers=headers), None, {415}
        case "unread" | "large answer":
            count = 900_000 if kind == "unread" else 10**7
            facts = {"name": "count", "datatype": "INT64", "shape": [1], "data": [count]}
            one = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
            body = json.dumps({"inputs": [facts, one], "parameters": {"binary_data_output": True}}).encode()
            message = client.message("/v2/models/expand/infer", body)
            return kind, message, None if kind == "large answer" else SECONDS + 1, {0, 500, 503, 504}
    facts = {"inputs": [{"name": "i", "datatype": "INT64", "shape": [1], "data": [7]}]}
    return kind, client.message("/v2/models/gather/infer", json.dumps(facts).encode()), None, {500}


def held(service: Service) -> dict[str, float]:
    family = [psutil.Process(service.process.pid), *service.process.children(recursive=True)]
    return {
        "MB": sum(one.memory_full_info().uss for one in family) / 1e6,
        "threads": sum(one.num_threads() for one in family),
        "descriptors": sum(one.num_fds() for one in family),
        "processes": len(family),
    }


async def load(service: Service, requests: int, clients: int, seed: int, swap: Path) -> Counter[str]:
    """What came of good requests, and of hostile ones: one after nine of the others. A model is replaced meanwhile."""
    client, rng, outcomes = Client(service.port), random.Random(seed), Counter[str]()
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [-1, 2]}]}).encode()
    good = [client.message("/models/digits", SEVEN), client.message("/v2/models/swap/infer", body)]
    expected = [(await client.send(message))[1] for message in good]
    numbers, is_over = iter(range(requests)), False

    async def one_client() -> None:
        for number in numbers:
            which = number % 50 == 0
            status, answer = await client.send(good[which])
            is_right = (status, answer) == (200, expected[which])
            outcomes["good: right" if is_right else f"good: WRONG {status} {answer[:80]!r}"] += 1
            if number % 9 == 0:
                kind, message, leaves_after, right = hostile(client, rng)
                status, answer = await client.send(message, leaves_after)
                has_words = status in (0, 200) or kind == "head" or b'{"error": "' in answer
                is_right = status in right and has_words
                outcomes[f"{kind}: {'right' if is_right else f'WRONG {status} {answer[:80]!r}'}"] += 1

    async def replace() -> None:
        while not is_over:
            await asyncio.sleep(1)
            (swap.parent / "new").write_bytes(swap.read_bytes())
            os.replace(swap.parent / "new", swap)

    replacing = asyncio.create_task(replace())
    await asyncio.gather(*(one_client() for _ in range(clients)))
    is_over = True
    await replacing
    return outcomes


PROBE = """
import http.client, select, sys, time
longest = 0
while not select.select([sys.stdin], [], [], 0.05)[0]:
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    connection.request("GET", "/v2/health/live", headers={"Host": "any.example"})
    assert connection.getresponse().read() == b'{"live": true}'
    connection.close()
    longest = max(longest, time.monotonic() - begun)
print(longest)
"""
"""A program that asks for the health until something is written to it, and prints the longest time that it took."""


def attack(folder: Path, requests: int, clients: int) -> list[str]:
    models = [MODELS / name for name in ("digits.onnx", "digits_batch.onnx")]
    models += [folder / f"{name}.onnx" for name in ("loop", "gather", "expand", "swap")]
    with run_service(folder / "log", *models, *LIMITS, "--idle", 0.2) as service:
        asyncio.run(load(service, max(requests // 5, 200), clients, 1, folder / "swap.onnx"))
        time.sleep(SECONDS + 12)  # what is silent or unread is closed
        before = held(service)
        command = [sys.executable, "-c", PROBE, str(service.port)]
        probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        outcomes = asyncio.run(load(service, requests, clients, 2, folder / "swap.onnx"))
        longest = float(probe.communicate("end\n")[0] or "inf")
        time.sleep(SECONDS + 12)
        after = held(service)
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) / 1e3
    print(*(f"{count:6} {outcome}" for outcome, count in sorted(outcomes.items())), sep="\n")
    print("before", before, "after", after, sep="\n")
    print(f"peak {peak:.0f} MB, {before['MB'] + BOUND:.0f} allowed; health after {longest:.2f} s at most", flush=True)
    faults = [outcome for outcome in outcomes if "WRONG" in outcome]
    faults += ["the health took more than half a second"] if longest > 0.5 else []
    faults += ["the peak is above the bound"] if peak > before["MB"] + BOUND else []
    limits = {"MB": before["MB"] * 1.1, "threads": before["threads"], "processes": before["processes"]}
    limits["descriptors"] = before["descriptors"] + STILL
    return faults + [f"more {name}" for name, most in limits.items() if after[name] > most]


async def end(service: Service) -> float:
    """The seconds that SIGTERM takes while every kind of request is on its way."""
    client, rng = Client(service.port), random.Random(3)
    asked = [asyncio.create_task(client.send(hostile(client, rng)[1])) for _ in range(60)]
    await asyncio.sleep(1)
    begun = time.monotonic()
    try:
        code = await asyncio.to_thread(service.close)
    except psutil.TimeoutExpired:
        service.process.kill()
        code = -1
    seconds = time.monotonic() - begun
    await asyncio.gather(*asked, return_exceptions=True)
    print(f"SIGTERM took {seconds:.1f} s, with the exit code {code}", flush=True)
    return seconds if code == 0 else float("inf")


async def kill(service: Service, kills: int) -> list[str]:
    """An engine is killed while it evaluates; another model's requests go on meanwhile."""
    client, faults, is_over = Client(service.port), [], False
    counts = Counter[int]()

    async def others() -> None:
        while not is_over:
            status, body = await client.send(client.message("/models/digits", SEVEN))
            counts[status] += 1
            if status != 200:
                faults.append(f"another model's request got {status}: {body[:100]!r}")

    going_on = asyncio.create_task(others())
    for _ in range(kills):
        spent = {one: one.cpu_times().user for one in service.engines()}
        asked = asyncio.create_task(client.send(client.message("/v2/models/loop/infer", counting(1 << 40))))
        growth: dict[psutil.Process, float] = {}
        while max(growth.values(), default=0) < 0.5:  # that of digits is busy, too, but not as much
            await asyncio.sleep(0.05)
            growth = {one: one.cpu_times().user - spent.get(one, 0) for one in service.engines()}
        max(growth, key=lambda one: growth[one]).kill()
        status, body = await asked
        if status != 503 or b"ended" not in body:
            faults.append(f"the killed engine's request got {status}: {body[:100]!r}")
        status, _ = await client.send(client.message("/v2/models/loop/infer", counting(3)))
        if status != 200:
            faults.append(f"the request after it got {status}")
    is_over = True
    await going_on
    print(f"{kills} engines killed; requests to another model: {dict(counts)}", flush=True)
    return faults


def unload(folder: Path) -> list[str]:
    """The memory of a model of 190 MB comes back: to what a service has that never loaded it."""
    (folder / "large.onnx").write_bytes(chain_matrices(4900))
    words = [MODELS / "digits.onnx", "--idle", 3, "--max-seconds", 60]
    with run_service(folder / "log", *words) as service:
        assert service.ask("/models/digits", SEVEN).status == 200
        time.sleep(6)
        sizes = [service.process.memory_info().rss / 1e6]
    with run_service(folder / "log", *words, folder / "large.onnx") as service:
        client = Client(service.port)
        inputs = [{"name": "h0", "datatype": "FP32", "shape": [1, 4900], "data": [0.5] * 4900}]
        message = client.message("/v2/models/large/infer", json.dumps({"inputs": inputs}).encode())
        for _ in range(3):
            assert asyncio.run(client.send(message))[0] == 200
            sizes.append(service.process.memory_info().rss / 1e6)
            time.sleep(6)
            sizes.append(service.process.memory_info().rss / 1e6)
    print("MB before, used, idle, used, idle, ...:", *(f"{size:.0f}" for size in sizes), flush=True)
    return [] if max(sizes[::2]) <= sizes[0] * 1.1 else ["the memory did not come back"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--leave-out", choices=KINDS, action="append", default=[], help="a kind of hostile requests")
    options = parser.parse_args()
    KINDS[:] = [kind for kind in KINDS if kind not in options.leave_out]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.onnx").write_bytes(counting_loop())
        ends = [tensor("i", [1], INT64), tensor("y", [1])]
        node = helper.make_node("Gather", ["table", "i"], ["y"])
        (folder / "gather.onnx").write_bytes(data([node], ends[:1], ends[1:], {"table": np.ones(3, np.float32)}))
        ends = [tensor("count", [1], INT64), tensor("x", [1]), tensor("y", ["n"])]
        node = helper.make_node("Expand", ["x", "count"], ["y"])
        (folder / "expand.onnx").write_bytes(data([node], ends[:2], ends[2:]))
        (folder / "swap.onnx").write_bytes(unary("Neg", [2]))
        faults = attack(folder, options.requests, options.clients)
        models = [MODELS / "digits.onnx", MODELS / "digits_batch.onnx"]
        models += [folder / f"{name}.onnx" for name in ("loop", "gather", "expand")]
        service = Service(folder / "log", *models, *LIMITS)
        service.wait_ready()
        faults += ["SIGTERM took more than ten seconds"] if asyncio.run(end(service)) > 10 else []
        if options.kills:
            with run_service(folder / "log", folder / "loop.onnx", MODELS / "digits.onnx", "--isolated") as service:
                faults += asyncio.run(kill(service, options.kills))
        faults += unload(folder)
    if faults:
        raise SystemExit("\n".join(["It failed:", *faults[:20]]))


if __name__ == "__main__":
    main()
