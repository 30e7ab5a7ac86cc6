"""Sends 10,000 requests to `winml-py serve`, a tenth of them hostile, and kills isolated engines in the middle.

    python tests/tools/serve_hostile.py [--requests N] [--kills N] [--clients N]

Good requests must be right, bad ones a 4xx with words of ours, a model's failure 500, and nothing may grow: memory,
threads, descriptors, processes. Then an isolated engine is killed while it evaluates: only its own requests may fail,
with 503. Last, a model of 190 MB is let go when idle: the memory must be within 10 % of what it was before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
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

from helpers.models import INT64, chain_matrices, counting_loop, data, tensor
from helpers.paths import MODELS, PICTURES
from helpers.serving import Service, claiming, serving

SEVEN = (PICTURES / "seven.png").read_bytes()
STILL = 10
"""How many descriptors more are no growth: connections that are being closed."""


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


def hostile(client: Client, rng: random.Random) -> tuple[str, bytes, float | None, set[int]]:
    """The kind of a request, the request, after how long it leaves, and the statuses that are right."""
    kind = rng.choice(["noise", "bomb", "cut", "half", "host", "large", "type", "json", "head", "leaves", "fails"])
    path, infer = "/models/digits", "/v2/models/digits/infer"
    wrong = {"inputs": [{"name": "image", "datatype": "INT32", "shape": [1], "data": [1]}]}
    match kind:
        case "noise":
            return kind, client.message(path, rng.randbytes(5000)), None, {415}
        case "bomb":
            return kind, client.message(path, claiming(20_000, 20_000)), None, {415}
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


async def load(service: Service, requests: int, clients: int, seed: int) -> Counter[str]:
    """What came of the requests; every tenth is hostile."""
    client, rng, outcomes = Client(service.port), random.Random(seed), Counter[str]()
    _, expected = await client.send(client.message("/models/digits", SEVEN))
    numbers = iter(range(requests))

    async def one_client() -> None:
        for number in numbers:
            if number % 10:
                status, body = await client.send(client.message("/models/digits", SEVEN))
                outcomes[
                    "good: right" if (status, body) == (200, expected) else f"good: WRONG {status} {body[:80]!r}"
                ] += 1
                continue
            kind, message, leaves_after, right = hostile(client, rng)
            status, body = await client.send(message, leaves_after)
            has_words = status in (0, 421) or kind == "head" or b'{"error": "' in body
            outcomes[f"{kind}: {'right' if status in right and has_words else f'WRONG {status} {body[:80]!r}'}"] += 1

    await asyncio.gather(*(one_client() for _ in range(clients)))
    return outcomes


def attack(folder: Path, requests: int, clients: int) -> list[str]:
    words = [MODELS / "digits.onnx", folder, "--max-seconds", 3, "--max-pixels", 10**6]
    faults = []
    with serving(folder / "log", *words) as service:
        asyncio.run(load(service, max(requests // 5, 200), clients, 1))
        time.sleep(6)  # what is silent is closed
        before = held(service)
        outcomes = asyncio.run(load(service, requests, clients, 2))
        time.sleep(6)
        after = held(service)
    print(*(f"{count:6} {outcome}" for outcome, count in sorted(outcomes.items())), sep="\n")
    print("before", before, "after", after, sep="\n", flush=True)
    faults += [outcome for outcome in outcomes if "WRONG" in outcome]
    limits = {"MB": before["MB"] * 1.1, "threads": before["threads"], "processes": before["processes"]}
    limits["descriptors"] = before["descriptors"] + STILL
    return faults + [f"more {name}" for name, most in limits.items() if after[name] > most]


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
    with serving(folder / "log", *words) as service:
        time.sleep(6)
        sizes = [service.process.memory_info().rss / 1e6]
    with serving(folder / "log", *words, folder / "large.onnx") as service:
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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loop.onnx").write_bytes(counting_loop())
        ends = [tensor("i", [1], INT64), tensor("y", [1])]
        node = helper.make_node("Gather", ["table", "i"], ["y"])
        (folder / "gather.onnx").write_bytes(data([node], ends[:1], ends[1:], {"table": np.ones(3, np.float32)}))
        faults = attack(folder, options.requests, options.clients)
        if options.kills:
            with serving(folder / "log", folder / "loop.onnx", MODELS / "digits.onnx", "--isolated") as service:
                faults += asyncio.run(kill(service, options.kills))
        faults += unload(folder)
    if faults:
        raise SystemExit("\n".join(["It failed:", *faults[:20]]))


if __name__ == "__main__":
    main()
