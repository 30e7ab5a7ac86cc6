"""What a request may cost the service, in memory and in time: what `docs/security.md` says."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import re
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.asgi import Client
from helpers.memory import linux
from helpers.models import INT64, STRING, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.serving import Answer, Service, run_service
from helpers.waiting import wait_until
from winml_py import LearningModelSessionOptions, serve

SEVEN = (PICTURES / "seven.png").read_bytes()
MB = 1 << 20
BYTES, PIXELS, WAITING = 24 * MB, 4_000_000, 8


def make_file(side: int, level: int = 0) -> bytes:
    """A PNG of some kB, however large it becomes."""
    file = io.BytesIO()
    Image.new("RGB", (side, side), (level, level, level)).save(file, "PNG")
    return file.getvalue()


def expand() -> bytes:
    """A model of `count` numbers, all of them x."""
    ends = [tensor("count", [1], INT64), tensor("x", [1]), tensor("y", ["n"])]
    return data([helper.make_node("Expand", ["x", "count"], ["y"])], ends[:2], ends[2:])


def write_request(**inputs: tuple[str, list[int], bytes | list[Any]]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a request: a datatype, a shape, and bytes or numbers for each input."""
    tensors, tail = [], b""
    for name, (datatype, shape, values) in inputs.items():
        facts: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
        if isinstance(values, bytes):
            tail += values
            facts["parameters"] = {"binary_data_size": len(values)}
        else:
            facts["data"] = values
        tensors.append(facts)
    head = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}}).encode()
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}


def infer(service: Service, model: str, request: tuple[bytes, dict[str, str]]) -> Answer:
    return service.ask(f"/v2/models/{model}/infer", *request)


def write_files(model: str, *files: bytes) -> tuple[bytes, dict[str, str]]:
    """A request with pictures for the only input of a model."""
    values = b"".join(len(file).to_bytes(4, "little") + file for file in files)
    return write_request(**{"image" if "digits" in model else "x": ("BYTES", [len(files)], values)})


def ask_for_numbers(service: Service, count: int) -> Any:
    """A connection on which so many numbers are asked for; the answer waits to be read."""
    body, headers = write_request(count=("INT64", [1], [count]), x=("FP32", [1], [1.0]))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /v2/models/expand/infer HTTP/1.1\r\nHost: localhost:{service.port}\r\n{lines}"
    return service.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "words.onnx").write_bytes(unary(shape=["n"], element=STRING))
    (folder / "numbers.onnx").write_bytes(unary("Neg", ["n"]))
    (folder / "free.onnx").write_bytes(unary(shape=["n", 3, "height", "width"]))
    (folder / "four.onnx").write_bytes(unary(shape=[4, 3, 8, 8]))
    (folder / "expand.onnx").write_bytes(expand())
    words = [MODELS / "digits_batch.onnx", MODELS / "digits.onnx", folder, "--max-seconds", 4, "--max-waiting", WAITING]
    with run_service(folder / "log", *words, "--max-bytes", BYTES, "--max-pixels", PIXELS) as made:
        yield made


def read_tensor(answer: Answer) -> np.ndarray[Any, Any]:
    length = int(answer.headers["inference-header-content-length"])
    (output,) = json.loads(answer.body[:length])["outputs"]
    return np.frombuffer(answer.body[length:], np.float32).reshape(output["shape"])


def test_a_batch_gives_what_each_picture_gives_alone(service: Service) -> None:
    files = [SEVEN, make_file(28, 200), make_file(56, 90)]
    alone = [read_tensor(infer(service, "digits_batch", write_files("digits_batch", file))) for file in files]
    together = read_tensor(infer(service, "digits_batch", write_files("digits_batch", *files)))
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-5)
    levels = [0, 1, 2, 255]
    same = read_tensor(infer(service, "four", write_files("four", *(make_file(8, level) for level in levels))))
    np.testing.assert_array_equal(same, np.float32(levels)[:, None, None, None] * np.ones((4, 3, 8, 8), np.float32))


@pytest.mark.parametrize(
    ("model", "files", "words"),
    [
        ("digits", [SEVEN] * 60, "Expected a batch of 1, got 60"),
        ("four", [make_file(8)] * 3, "Expected a batch of 4, got 3"),
        ("digits_batch", [], "Expected at least one picture, got none"),
        (
            "free",
            [make_file(1500)] * 2,
            "at most 4,000,000 pixels in all pictures together, at the size that the model takes",
        ),
        ("free", [make_file(8), make_file(9)], "produce tensors of different shapes, (1, 3, 9, 9) after (2, 3, 8, 8)"),
        ("digits_batch", [SEVEN, make_file(2001)], "more than the limit of 4,000,000"),
        ("digits_batch", [SEVEN, b"no picture"], "is not a picture"),
    ],
)
def test_a_batch_that_is_refused(service: Service, model: str, files: list[bytes], words: str) -> None:
    answer = infer(service, model, write_files(model, *files))
    assert (answer.status in (400, 415), words in answer.facts["error"]) == (True, True), answer.body


def test_more_json_or_texts_than_python_reads_at_once(service: Service) -> None:
    body = b'{"inputs": [' + b" " * (4 * MB) + b"]}"
    answer = service.ask("/v2/models/numbers/infer", body)
    assert answer.status == 400
    assert "Expected at most 4,194,304 bytes of JSON, got 4,194,318. Send" in answer.facts["error"]
    answer = service.ask("/v2/models/numbers/infer", b'{"inputs": [' + b"{}," * 99_999)
    assert answer.facts["error"] == "Expected at most 100,000 lists, objects and keys, got 100,002."
    count = (1 << 17) + 1
    answer = infer(service, "words", write_request(x=("BYTES", [count], bytes(4 * count))))
    assert (answer.status, "4 bytes follow 131,072 elements, of at most" in answer.facts["error"]) == (400, True)


@pytest.mark.parametrize("odd", [0, np.nan, -np.inf])
def test_a_long_answer_in_json(service: Service, odd: float) -> None:
    """It is written in parts."""
    numbers = np.arange(200_001, dtype=np.float32)
    numbers[100_000] = odd
    body, headers = write_request(x=("FP32", [200_001], numbers.tobytes()))
    body = body.replace(b'"binary_data_output": true', b'"binary_data_output":false')
    (output,) = infer(service, "numbers", (body, headers)).facts["outputs"]
    np.testing.assert_array_equal(np.array(output["data"], np.float32), -numbers)


def test_a_long_answer_arrives_whole_and_a_longer_one_is_refused(service: Service) -> None:
    request = write_request(count=("INT64", [1], [5_000_000]), x=("FP32", [1], [2.5]))
    np.testing.assert_array_equal(read_tensor(infer(service, "expand", request)), np.full(5_000_000, 2.5, np.float32))
    answer = infer(service, "expand", write_request(count=("INT64", [1], [7_000_000]), x=("FP32", [1], [2.5])))
    assert answer.status == 500
    assert re.match(r"The answer has 28,000,\d+ bytes, but the limit is 25,165,824", answer.facts["error"])


def test_answers_that_nobody_reads(service: Service) -> None:
    """They count as requests while they wait; then they are dropped, and the connection is closed."""
    before = len(service.process.net_connections())
    connections = [ask_for_numbers(service, 5_000_000) for _ in range(WAITING)]
    wait_until(lambda: service.ask("/models/digits", SEVEN).status == 503)
    wait_until(lambda: service.ask("/models/digits", SEVEN).status == 200)
    wait_until(lambda: len(service.lines("The answer was not sent completely in time.")) == WAITING)
    wait_until(lambda: len(service.process.net_connections()) <= before, 60)
    for each in connections:
        each.close()


def test_a_request_that_fails_leaves_nothing() -> None:
    """Not even what the next collection of garbage would free: its body, and the objects of its JSON."""
    client = Client(app=serve.app({"digits": MODELS / "digits.onnx"}))
    facts = {"name": "image", "datatype": "FP32", "shape": [1], "data": [1.5] * 200_000}
    requests = {"/v2/models/digits/infer": json.dumps({"inputs": [facts]}).encode(), "/models/digits": bytes(MB)}

    async def measure() -> int:
        for path, body in requests.items():
            assert (await client.ask("POST", path, body)).status_code in (400, 415)
        gc.collect()
        tracemalloc.start()
        for path, body in requests.items():
            for _ in range(4):
                await client.ask("POST", path, bytes(bytearray(body)))
        await asyncio.sleep(0)
        return tracemalloc.get_traced_memory()[0]

    gc.disable()
    try:
        assert asyncio.run(measure()) < 8 * MB  # Python 3.13 still holds one request, 5 MB; all of them are 30
    finally:
        tracemalloc.stop()
        gc.enable()


@linux
def test_memory(tmp_path: Path) -> None:
    """The bound of `docs/security.md`, for requests that each take as much as they can."""
    (tmp_path / "expand.onnx").write_bytes(expand())
    words = [MODELS / "digits_batch.onnx", tmp_path / "expand.onnx", "--max-seconds", 60, "--max-waiting", WAITING]
    facts = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.5] * 700_000}
    numbers = json.dumps({"inputs": [facts]}).encode()
    many = write_files("digits_batch", *[make_file(2000)] * 25)
    with run_service(tmp_path / "log", *words, "--max-bytes", BYTES, "--max-pixels", PIXELS) as service:
        assert infer(service, "digits_batch", write_files("digits_batch", SEVEN)).status == 200
        before = service.process.memory_info().rss
        unread = [ask_for_numbers(service, 5_000_000) for _ in range(3)]
        statuses: list[int] = []

        def attack(model: str, body: bytes, headers: Mapping[str, str]) -> None:
            statuses.append(service.ask(f"/v2/models/{model}/infer", body, headers).status)

        attacks = [("expand", numbers, {}), ("digits_batch", *many)] * 2
        threads = [threading.Thread(target=attack, args=each) for each in attacks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in unread:
            each.close()
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10
    assert sorted(statuses) == [200, 200, 400, 400]
    threads_at_work = min(LearningModelSessionOptions().intra_op_num_threads, len(attacks))
    assert peak - before < WAITING * 2 * BYTES + threads_at_work * 40 * PIXELS + 150 * MB
