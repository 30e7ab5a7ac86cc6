"""The services of samples/: good requests are answered, bad ones are refused, and the service outlives them.

Their packages are no part of the extra [test]. tests/serve tests the service that one of them mounts.

    pip install -e '.[test]' fastapi 'uvicorn[standard]' litserve && pytest tests/project/test_services.py
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import psutil
import pytest
from PIL import Image

from helpers.damaged_files import make_png_claiming
from helpers.paths import MODELS, PICTURES, ROOT
from helpers.processes import interrupt, start_program
from helpers.services import SERVICES

pytestmark = pytest.mark.once

PATHS = {"fastapi": "/vision/models/model", "litserve": "/predict"}
SEVEN = (PICTURES / "seven.png").read_bytes()


class Service(NamedTuple):
    """A service that runs."""

    process: psutil.Popen
    port: int
    path: str

    def ask(self, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """The status and the answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("POST", self.path, body, headers or {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())


@pytest.fixture(scope="module", params=list(SERVICES))
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    name = request.param
    missing = [package for package in SERVICES[name] if find_spec(package) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = start_program([sys.executable, ROOT / "samples" / f"service_{name}.py", port])
    running, family = Service(process, port, PATHS[name]), []
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            with suppress(OSError):
                if running.ask(SEVEN)[0] == 200:
                    break
            time.sleep(0.1)
        yield running
        family = [process, *process.children(recursive=True)]
        interrupt(process, "SIGTERM")
        _, alive = psutil.wait_procs(family, timeout=60)
        assert alive == []  # it stops with all its processes
    finally:
        for member in family or [process]:
            with suppress(psutil.NoSuchProcess):
                member.kill()


def require_seven(answer: tuple[int, Any]) -> None:
    """What ONNX Runtime makes of the picture, which Pillow has scaled."""
    with Image.open(PICTURES / "seven.png") as image:
        pixels = np.asarray(image.resize((28, 28), Image.Resampling.BICUBIC), np.float32)
    session = onnxruntime.InferenceSession(MODELS / "digits.onnx", providers=["CPUExecutionProvider"])
    scores = np.asarray(session.run(None, {"image": pixels[None, None] / 255})[0])[0]
    status, facts = answer
    assert status == 200
    best = facts["results"][0]["outputs"]["probabilities"]["top"] if "results" in facts else facts
    assert [place["index"] for place in best[:3]] == scores.argsort()[::-1][:3].tolist()
    assert best[0].get("score", best[0].get("value")) == pytest.approx(scores.max(), abs=0.01)


def read_message(answer: Any) -> str:
    return str(answer.get("error") or answer.get("detail"))


def test_a_picture_is_classified(service: Service) -> None:
    require_seven(service.ask(SEVEN))


def test_the_end_of_its_engine(service: Service) -> None:
    """What a model can do to its runtime. One request may be told so; the service goes on."""
    processes = [
        child for child in service.process.children(recursive=True) if "isolated.child" in " ".join(child.cmdline())
    ]
    assert len(processes) == 1
    processes[0].kill()
    status, answer = service.ask(SEVEN)
    if status != 200:
        assert "ended" in read_message(answer)
    require_seven(service.ask(SEVEN))


def test_what_is_no_picture_is_refused(service: Service) -> None:
    for body in (b"no picture", b"", make_png_claiming(10_000, 10_000), SEVEN[: len(SEVEN) // 2]):
        status, answer = service.ask(body)
        assert status == 415, answer
        assert read_message(answer)
    assert "pixels" in read_message(service.ask(make_png_claiming(10_000, 10_000))[1])
    require_seven(service.ask(SEVEN))
