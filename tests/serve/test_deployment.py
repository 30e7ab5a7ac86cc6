"""What the page on containers says: its command where nothing can be written, and its token in workers of uvicorn."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from helpers.paths import MODELS, PICTURES, ROOT
from helpers.processes import interrupt, start_program
from helpers.serving import run_service
from helpers.waiting import wait_until

pytestmark = pytest.mark.once

PAGE = (ROOT / "docs" / "how-to" / "containers.md").read_text(encoding="utf-8")
SEVEN = (PICTURES / "seven.png").read_bytes()


def test_the_command_of_the_image_needs_nothing_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = re.findall(r"^CMD (\[[^]]*\])", PAGE, re.MULTILINE)
    _, _, model, *options = json.loads(words.replace("\\\n", ""))
    options[options.index("--host") + 1] = "127.0.0.1"  # tests listen to nobody else
    for name in ("HOME", "USER", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    (setting,) = re.findall(r"(WINML_PY_CACHE)=\n", PAGE)
    monkeypatch.setenv(setting, "")
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    monkeypatch.chdir(home)
    with run_service(tmp_path / "log", MODELS / Path(model).name, *options, "--isolated") as service:
        assert service.ask("/v2/health/ready").facts == {"ready": True}
        answer = service.ask("/models/digits", SEVEN, {"Host": "winml:8000"})  # as nginx sends it
        assert (answer.status, answer.facts["results"][0]["outputs"]["probabilities"]["top"][0]["index"]) == (200, 7)
    assert list(home.iterdir()) == []


@contextmanager
def run_uvicorn(folder: Path, *words: str) -> Iterator[int]:
    """The page's application in uvicorn; gives the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", port, *words]
    with (folder / "log").open("w") as log:
        environment = os.environ | {"TOKEN": "a-long-random-text"}
        process = start_program(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: ask(port, "/v2/health/live") == 200)
        yield port
        family = [process, *process.children(recursive=True)]
        interrupt(process, "SIGTERM")
        assert psutil.wait_procs(family, timeout=60)[1] == []
    finally:
        for member in [*process.children(recursive=True), process] if process.is_running() else []:
            member.kill()


def ask(port: int, path: str, token: str = "", body: bytes | None = None) -> int:
    """The status; 0 where nobody listens yet."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection, suppress(OSError):
        headers = {"Authorization": token} if token else {}
        connection.request("GET" if body is None else "POST", path, body, headers)
        return connection.getresponse().status
    return 0


@pytest.mark.parametrize("words", [(), ("--workers", "2", "--root-path", "/vision")])
def test_the_token_of_the_page(words: tuple[str, ...], tmp_path: Path) -> None:
    (program,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    models = tmp_path / "models"
    models.mkdir()
    (models / "digits.onnx").write_bytes((MODELS / "digits.onnx").read_bytes())
    (tmp_path / "service.py").write_text(program)
    right = "Bearer a-long-random-text"
    with run_uvicorn(tmp_path, *words) as port:
        for token in ("", "Bearer", "Bearer ", "Bearer x", "a-long-random-text", right + "x"):
            assert ask(port, "/models/digits", token, SEVEN) == 401
            for path in ("/", "/metrics", "/v2/models/digits", "/v2/health/live/", "/vision/v2/health/live"):
                assert ask(port, path, token) == 401
        assert [ask(port, path, right) for path in ("/", "/metrics", "/v2/models/digits")] == [200] * 3
        assert ask(port, "/models/digits", right, SEVEN) == 200
        assert ask(port, "/v2/health/live") == 200
        assert ask(port, "/v2/health/ready") in (200, 503)
