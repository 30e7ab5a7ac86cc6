"""`winml-py serve`: its plain way, its limits, and what operations see of it."""

from __future__ import annotations

import asyncio
import base64
import http.client
import io
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image
from starlette.applications import Starlette
from starlette.routing import Mount

from helpers.asgi import Client
from helpers.cli import call, require_failure
from helpers.damaged_files import make_png_claiming
from helpers.models import INT64, counting_loop, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.processes import drop_line_of_wine
from helpers.serving import Service, run_service
from helpers.waiting import wait_until
from winml_py import (
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    scaling,
    serve,
)
from winml_py.errors import InvalidArgumentError

SEVEN = (PICTURES / "seven.png").read_bytes()
HOUR = 1 << 40
"""Steps of the counting loop that take hours."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models: one that counts, and one that fails where its index is not in range."""
    path = tmp_path_factory.mktemp("models")
    (path / "loop.onnx").write_bytes(counting_loop())
    ends = [tensor("i", [1], INT64), tensor("y", [1])]
    node = helper.make_node("Gather", ["table", "i"], ["y"])
    (path / "gather.onnx").write_bytes(data([node], ends[:1], ends[1:], {"table": np.ones(3, np.float32)}))
    return path


@pytest.fixture(scope="module")
def service(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    words = [MODELS / "digits.onnx", MODELS / "shapes.onnx", folder, "--max-seconds", 2, "--max-waiting", 4]
    with run_service(
        tmp_path_factory.mktemp("log") / "log", *words, "--max-bytes", 1 << 20, "--max-pixels", 10**6
    ) as made:
        yield made


async def get(app: Any, path: str, body: bytes = b"") -> tuple[int, Any]:
    answer = await Client(app=app).ask("POST" if body else "GET", path, body)
    return answer.status_code, answer.json()


def count(service: Service, steps: int) -> Any:
    return service.infer("loop", count=("INT64", [], [steps]), x=("FP32", [], [0.0]))


@pytest.mark.parametrize(("model", "picture"), [("digits", "seven.png"), ("shapes", "shapes.png")])
def test_a_picture_gets_what_run_prints(service: Service, model: str, picture: str) -> None:
    printed = json.loads(call("run", MODELS / f"{model}.onnx", PICTURES / picture, "--json").stdout)
    printed["results"][0] |= {"model": model, "input": "image"}
    answer = service.ask(f"/models/{model}", (PICTURES / picture).read_bytes())
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    numbers = re.compile(r"\d+\.\d+(?:e-\d+)?")
    found, wanted = json.dumps(answer.facts), json.dumps(printed)
    assert numbers.sub("", found) == numbers.sub("", wanted)
    assert list(map(float, numbers.findall(found))) == pytest.approx(
        list(map(float, numbers.findall(wanted))), rel=1e-3
    )


def test_the_first_page_has_lines_to_try(service: Service) -> None:
    text = service.ask("/").body.decode()
    assert f"curl --data-binary @picture.jpg {service.address}models/digits" in text
    assert f"curl {service.address}v2/models/loop" in text
    assert service.ask("/v2/models").facts == {"models": ["digits", "shapes", "gather", "loop"]}


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/models/digits", b"no picture", 415, "is not a picture"),
        ("/models/digits", b"", 415, "got 0 bytes"),
        ("/models/digits", SEVEN[: len(SEVEN) // 2], 415, "is not a picture"),
        ("/models/digits", make_png_claiming(10_000, 10_000), 415, "more than the limit of 1,000,000"),
        ("/v2/models/digits/infer", b"{}", 400, "Expected each of the inputs image; the request has no image."),
        ("/models/loop", SEVEN, 400, "Use /v2/models/NAME/infer"),
        ("/models/nothing", SEVEN, 404, "There is no model 'nothing'"),
        ("/models/digits", None, 405, "Expected POST, got GET. The page / shows calls."),
        *((path, b"", 405, "got POST. The page / shows calls.") for path in ("/v2", "/v2/models", "/v2/health/live")),
        ("/nothing", None, 404, "Not Found"),
    ],
)
def test_what_is_refused(service: Service, path: str, body: bytes | None, status: int, words: str) -> None:
    answer = service.ask(path, body)
    assert (answer.status, words in answer.facts["error"]) == (status, True), answer.body
    assert ("allow" in answer.headers) is (status == 405)


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_a_form(service: Service, kind: str) -> None:
    answer = service.ask("/models/digits", b"--x\r\n" + SEVEN, {"Content-Type": kind})
    assert "If the body is a form, send the file itself: curl --data-binary @FILE." in answer.facts["error"]
    assert service.ask("/models/digits", SEVEN, {"Content-Type": kind}).status == 200  # as with --data-binary


@pytest.mark.parametrize("limits", [{"seconds": -1}, {"waiting": 0}, {"hosts": "example.com"}])
def test_limits_and_names_that_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="Expected"):
        serve.Limits(**limits)
    with pytest.raises(InvalidArgumentError, match=r"must not be empty or contain a slash|idle must be 0 or more"):
        serve.app({"a/b": MODELS / "digits.onnx"})
    with pytest.raises(InvalidArgumentError, match="Expected a Mapping, got str"):
        serve.app("digits.onnx")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="Expected a LearningModelDevice, got str"):
        serve.app({}, device="cpu")  # type: ignore[arg-type]


def test_options_that_fit_no_session_are_not_the_clients_mistake() -> None:
    options = LearningModelSessionOptions()
    options.override_named_dimension("no_such_size", 4)
    app = serve.app({"digits": MODELS / "digits.onnx"}, options=options)
    status, facts = asyncio.run(get(app, "/models/digits", SEVEN))
    assert status == 500
    assert facts["error"].startswith("The model cannot be compiled: ")


def test_a_body_that_is_or_grows_too_large(service: Service) -> None:
    head = b"POST /models/digits HTTP/1.1\r\nHost: localhost:%d\r\n" % service.port
    with service.send(head + b"Content-Length: 1048577\r\n\r\n") as connection:
        assert b"at most 1,048,576 bytes" in connection.makefile("rb").read()  # until the server closes it
    with service.send(head + b"Content-Length: %s\r\n\r\n" % (b"9" * 5000)) as connection:
        assert connection.recv(4096).startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
    with service.send(head + b"Transfer-Encoding: chunked\r\n\r\n") as connection:
        with suppress(OSError):
            for _ in range(40):
                connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_client_that_reads_when_it_has_sent_all_gets_its_answer(service: Service) -> None:
    """Then the connection takes the next request."""
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)) as connection:
        for body, status in ((bytes(30 << 20), 413), (SEVEN, 200), (iter([bytes(1 << 20)] * 30), 413), (SEVEN, 200)):
            connection.request("POST", "/models/digits", body)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status


def test_a_body_that_does_not_end_is_not_read_for_long(service: Service) -> None:
    head = b"POST /models/digits HTTP/1.1\r\nHost: localhost:%d\r\nTransfer-Encoding: chunked\r\n\r\n" % service.port
    start = time.monotonic()
    with service.send(head) as connection, suppress(ConnectionError):
        while time.monotonic() - start < 30:
            connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
            time.sleep(0.05)
    assert time.monotonic() - start < 20


def test_a_model_that_fails(service: Service) -> None:
    answer = service.infer("gather", i=("INT64", [1], [7]))
    assert (answer.status, "Gather" in answer.facts["error"]) == (500, True)
    assert service.infer("gather", i=("INT64", [1], [2])).facts["outputs"][0]["data"] == [1]


def test_an_evaluation_that_takes_too_long(service: Service) -> None:
    answer = count(service, HOUR)
    assert (answer.status, answer.facts["error"]) == (504, "The evaluation took more than 2 s.")


def test_more_than_may_wait(service: Service) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(count(service, HOUR))) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    busy = [one for one in answers if one.status == 503 and "4 requests are already waiting" in one.facts["error"]]
    assert (len(busy), {one.headers["retry-after"] for one in busy}) == (4, {"1"})
    others = [one.facts["error"] for one in answers if one not in busy]
    assert all("2 s" in words for words in others)  # evaluated, or waited for that long
    assert service.ask("/models/digits", SEVEN).status == 200


def test_clients_that_are_slow_or_leave(service: Service) -> None:
    head = b"POST /models/digits HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: %d\r\n\r\n"
    head %= service.port, len(SEVEN)
    before = len(service.process.net_connections())
    silent, slow_head = service.send(b""), service.send(head[:20])
    with service.send(head + SEVEN[:9]) as half:
        assert half.recv(4096).startswith(b"HTTP/1.1 408")
    service.send(head + SEVEN[:9]).close()
    with service.send(head + SEVEN) as whole:
        assert whole.recv(4096).startswith(b"HTTP/1.1 200")
    assert "The client has disconnected." in service.lines(" 499 ")[0]
    silent.settimeout(20)
    slow_head.settimeout(20)
    assert (silent.recv(10), slow_head.recv(10)) == (b"", b"")  # closed
    silent.close()
    slow_head.close()
    wait_until(lambda: len(service.process.net_connections()) <= before)


def leave_counting(service: Service) -> None:
    """Asks for hours of counting, and leaves."""
    facts = [{"name": "count", "datatype": "INT64", "shape": [], "data": [HOUR]}]
    facts.append({"name": "x", "datatype": "FP32", "shape": [], "data": [0]})
    body = json.dumps({"inputs": facts}).encode()
    head = b"POST /v2/models/loop/infer HTTP/1.1\r\nHost: localhost:%d\r\nContent-Length: %d\r\n\r\n"
    with service.send(head % (service.port, len(body)) + body):
        time.sleep(0.3)


def test_work_for_a_client_that_has_left_is_dropped(service: Service) -> None:
    for _ in range(LearningModelSessionOptions().intra_op_num_threads):
        leave_counting(service)
    assert "The client has disconnected." in service.lines("/v2/models/loop/infer 499")[0]
    wait_until(lambda: count(service, 3).status == 200)  # no core counts for hours


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.com"}, 421),
        ({"Host": "evil.com:{port}"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": "localhost:{port}"}, 200),
        ({"Origin": "http://evil.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
    ],
)
def test_the_host(service: Service, headers: dict[str, str], status: int) -> None:
    headers = {name: value.format(port=service.port) for name, value in headers.items()}
    answer = service.ask("/models/digits", SEVEN, headers)
    assert answer.status == status
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_another_address(tmp_path: Path) -> None:
    words = [MODELS / "digits.onnx", "--host", "0.0.0.0", "--allow-host", "pictures.example"]
    with run_service(tmp_path / "log", *words) as service:
        assert "it does not authenticate" in service.log.read_text()
        names = {"pictures.example": 200, "localhost:80": 200, "127.0.0.1": 200, "10.0.0.7": 421, "evil.com": 421}
        for host, status in names.items():
            assert service.ask("/v2", headers={"Host": host}).status == status
            for path in ("health/live", "health/ready", "models/digits/ready", "models/digits/versions/1/ready"):
                assert service.ask(f"/v2/{path}", headers={"Host": host}).status == 200
        own = {"Host": "pictures.example", "Origin": "https://pictures.example"}
        assert service.ask("/v2", headers=own).status == 200
        answer = service.ask("/models/ready", SEVEN, headers={"Host": "evil\x1b.com"})  # no address of a probe
        text = "The host 'evil\\x1b.com' is not allowed. If clients use it, allow it: --allow-host NAME"
        assert (answer.status, answer.facts["error"].startswith(text)) == (421, True)
        assert service.lines("POST /models/ready 421")[0].count(text) == 1


@pytest.mark.parametrize(
    ("allowed", "host", "is_own"),
    [
        ("api.example", "API.example:8000", True),
        ("Api.example:80", "api.example:80", True),
        ("api.example:80", "api.example:81", False),
        ("api.example", "api.example.evil", False),
        ("my_service", "my_service", True),
        ("10.0.0.7", "10.0.0.7:80", True),
        ("10.0.0.0/8", "10.9.9.9", True),
        ("10.0.0.0/8", "11.0.0.1:8000", False),
        ("10.0.0.0/8", "10.9.9.9.evil", False),
        ("fd00::/8", "[fd00::1]:8000", True),
        ("fd00::/8", "[fe00::1]", False),
        ("::1", "[::1]:80", True),
        ("[::1]:80", "[::1]:80", True),
        ("*", "anything:1", True),
        ("*", "", True),
    ],
)
def test_hosts(allowed: str, host: str, is_own: bool) -> None:
    """Names, addresses and networks. Whatever is allowed, another origin's page is not."""
    app = serve.app({}, serve.Limits(hosts=frozenset({allowed})))

    def ask(**headers: str) -> int:
        return asyncio.run(Client(app=app, headers={"host": host, **headers}).ask("GET", "/v2", b"")).status_code

    assert ask() == (200 if is_own else 421)
    assert ask(origin=f"https://{host}") == (200 if is_own else 421)
    assert ask(origin="http://evil.example") == (403 if is_own else 421)


@pytest.mark.parametrize("host", ["http://x y/", "http://api.example", "10.0.0.0/33", "a b", "", "10.0.0.1/8", "*.com"])
def test_what_is_no_host(host: str) -> None:
    words = r"Allow names, addresses, networks or \*, as in --allow-host"
    with pytest.raises(InvalidArgumentError, match=rf"^'?{re.escape(host)}'? .*{words}"):
        serve.Limits(hosts=frozenset({host}))


def test_a_length_that_is_stated_twice(service: Service) -> None:
    """A proxy may take one, and the service the other: what follows is not read."""
    head = b"GET /v2 HTTP/1.1\r\nHost: localhost:%d\r\n" % service.port
    lengths = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with service.send(head + lengths + head + b"\r\n") as connection:
        answer = connection.makefile("rb").read()  # until the server closes it
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b'{"error": "Expected Content-Length or Transfer-Encoding, got both."}')


def test_query_parameters(service: Service) -> None:
    cases = {
        "/models/digits?pictures=png": "pictures: Expected base64, got 'png'.",
        "/models/digits?topk=3&pictures=base64": "There is no query parameter 'topk'. Known: pictures.",
        "/v2/models/digits/infer?pictures=base64": "There is no query parameter 'pictures'. Known: none.",
    }
    for path, words in cases.items():
        answer = service.ask(path, SEVEN)
        assert (answer.status, answer.facts["error"]) == (400, words)
    assert service.ask("/v2/health/live?pretty").status == 400


def test_pictures_as_files_and_in_json() -> None:
    cat, app = PICTURES / "cat.jpg", serve.app({name: MODELS / f"{name}.onnx" for name in ("edges", "digits")})
    with LearningModelSession(LearningModel.load(MODELS / "edges.onnx")) as session:
        expected = session.evaluate_features({"image": ImageFeatureValue.load(cat)}).outputs["result"].to_pil()

    def ask(path: str, accept: str = "", query: str = "") -> Any:
        client = Client(app=app, headers={"accept": accept}, query=query)
        return asyncio.run(client.ask("POST", f"/models/{path}", cat.read_bytes()))

    answer = ask("edges", "image/png;q=0.9")
    assert answer.headers["content-type"] == "image/png"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(answer.content))), np.asarray(expected))
    found = ask("edges", query="pictures=base64").json()["results"][0]
    assert found["pictures"].keys() == {"result"}
    assert base64.b64decode(found["pictures"]["result"]) == answer.content
    for accept in ("", "*/*", "application/json, image/png"):
        assert ask("edges", accept).json()["results"] == [{k: v for k, v in found.items() if k != "pictures"}]
    assert ask("digits", query="pictures=base64").json()["results"][0]["pictures"] == {}
    words = "The answer has no picture and no mask. Accept application/json."
    answer = ask("digits", "image/png")
    assert (answer.status_code, answer.json()["error"]) == (406, words)


@pytest.mark.parametrize("count", [3, 300])
def test_the_mask_of_a_model_of_regions(count: int, tmp_path: Path) -> None:
    """A level for each class, the highest where the picture was cropped."""
    scores = np.zeros((1, count, 4, 4), np.float32)
    scores[0, count - 1, :, :2], scores[0, 1, :, 2:] = 1, 1
    nodes = [helper.make_node("Mul", ["image", "zero"], ["none"]), helper.make_node("ReduceSum", ["none"], ["nothing"])]
    nodes.append(helper.make_node("Add", ["scores", "nothing"], ["regions"]))
    ends = [tensor("image", [1, 3, 4, 4])], [tensor("regions", [1, count, 4, 4])]
    (tmp_path / "regions.onnx").write_bytes(data(nodes, *ends, {"scores": scores, "zero": np.zeros(1, np.float32)}))
    model = LearningModel.load(tmp_path / "regions.onnx")
    model.contracts["image"] = ImageContract(scaling=scaling.ShortestSide(4))
    app = serve.app({"regions": model})
    app.models["regions"].labels = [f"class {number}" for number in range(count)]
    file = io.BytesIO()
    Image.new("RGB", (8, 4)).save(file, "PNG")
    answer = asyncio.run(
        Client(app=app, headers={"accept": "image/png"}).ask("POST", "/models/regions", file.getvalue())
    )
    unseen = [255 if count < 255 else 65535] * 2
    row = [*unseen, count - 1, count - 1, 1, 1, *unseen]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(answer.content))), [row] * 4)


def test_the_log_and_the_metrics(tmp_path: Path) -> None:
    with run_service(tmp_path / "log", MODELS / "digits.onnx", "--log", "json") as service:
        assert service.ask("/models/digits", SEVEN, {"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
        given = service.ask("/models/digits", b"nothing", {"X-Request-Id": "two words"}).headers["x-request-id"]
        (good,), (bad,) = ([json.loads(line) for line in service.lines(name)] for name in ("mine-1", given))
        assert (good["method"], good["path"], good["status"]) == ("POST", "/models/digits", 200)
        assert good["received"] == len(SEVEN)
        assert min(good["waiting"], good["preparing"], good["evaluating"]) >= 0
        assert good["waiting"] + good["preparing"] + good["evaluating"] <= good["seconds"]
        assert (bad["status"], bad["error"], "not a picture" in bad["message"]) == (415, "PictureError", True)
        text = service.ask("/metrics").body.decode()
        assert 'winml_requests_total{model="digits",status="200"} 1.0' in text
        assert 'winml_errors_total{kind="PictureError",model="digits"} 1.0' in text
        assert 'winml_seconds_count{model="digits",phase="evaluating"} 1.0' in text
        assert "winml_models_loaded 1.0" in text
        assert re.search(rf'winml_bytes_total\{{direction="received"\}} {len(SEVEN) + 7}\.0', text)


def test_a_line_of_the_log_is_one_line(service: Service) -> None:
    service.ask("/a%0Ab%1B[2J")
    (line,) = service.lines("GET /a")
    assert r"GET /a\nb\x1b[2J 404" in line
    assert all(line.startswith("20") for line in drop_line_of_wine(service.log.read_text()).splitlines())


def test_it_is_not_ready_while_a_model_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    may_go, create = asyncio.Event(), LearningModelSession.create_async

    async def create_later(*arguments: Any) -> LearningModelSession:
        await may_go.wait()
        return await create(*arguments)

    monkeypatch.setattr(LearningModelSession, "create_async", create_later)
    app = serve.app({"digits": LearningModel.load(MODELS / "digits.onnx")})

    async def check() -> None:
        assert await get(app, "/v2/health/live") == (200, {"live": True})
        for path in ("/v2/health/ready", "/v2/models/digits/ready"):
            status, facts = await get(app, path)
            assert (status, facts["ready"]) == (503, False)
        asking = asyncio.create_task(get(app, "/models/digits", SEVEN))
        await asyncio.sleep(0.05)
        may_go.set()
        assert (await asking)[0] == 200  # it has waited
        assert await get(app, "/v2/models/digits/ready") == (200, {"name": "digits", "ready": True})
        app.close()

    asyncio.run(check())


def test_mounted(tmp_path: Path) -> None:
    app = Starlette(routes=[Mount("/vision", serve.app({"digits": MODELS / "digits.onnx"}))])
    status, facts = asyncio.run(get(app, "/vision/models/digits", SEVEN))
    assert (status, facts["results"][0]["outputs"]["probabilities"]["top"][0]["index"]) == (200, 7)
    page = asyncio.run(Client(app=app).ask("GET", "/vision/", b"")).text
    assert "curl --data-binary @picture.jpg http://127.0.0.1/vision/models/digits" in page
    limits = serve.Limits(hosts=frozenset({"api.example"}))
    app = Starlette(routes=[Mount("/vision", serve.app({"digits": MODELS / "digits.onnx"}, limits))])
    client = Client(app=app, headers={"host": "api.example"}, query="pictures=base64")
    assert asyncio.run(client.ask("POST", "/vision/models/digits", SEVEN)).status_code == 200
    assert asyncio.run(get(app, "/vision/v2/models/digits/ready")) == (200, {"name": "digits", "ready": True})
    assert asyncio.run(get(app, "/vision/v2"))[0] == 421


def test_a_session_that_another_request_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its engine was lost, and the other request came first."""
    app, load = serve.app({"digits": MODELS / "digits.onnx"}), ImageFeatureValue.load

    def close_and_load(*arguments: Any, **options: Any) -> ImageFeatureValue:
        monkeypatch.setattr(ImageFeatureValue, "load", load)
        served = app.models["digits"]
        served.session.close()
        served.session = None
        return load(*arguments, **options)

    monkeypatch.setattr(ImageFeatureValue, "load", close_and_load)
    assert asyncio.run(get(app, "/models/digits", SEVEN))[0] == 200


def test_a_model_that_nobody_asks_for_is_let_go(tmp_path: Path) -> None:
    with run_service(tmp_path / "log", MODELS / "digits.onnx", "--idle", 0.5) as service:
        assert service.ask("/models/digits", SEVEN).status == 200
        wait_until(lambda: b"winml_models_loaded 0.0" in service.ask("/metrics").body)
        assert service.ask("/v2/health/ready").status == 200  # it is loaded when it is asked for
        assert service.ask("/models/digits", SEVEN).status == 200
        assert b"winml_models_loaded 1.0" in service.ask("/metrics").body


def test_a_model_that_was_replaced_is_loaded_when_it_was_idle(tmp_path: Path) -> None:
    """The service is not ready after a file that cannot be loaded, until there is another one."""
    path = tmp_path / "m.onnx"

    def replace(content: bytes) -> None:
        wait_until(lambda: b"winml_models_loaded 0.0" in service.ask("/metrics").body)
        (tmp_path / "new").write_bytes(content)
        os.replace(tmp_path / "new", path)

    def infer() -> Any:
        return service.infer("m", x=("FP32", [2], [-3, 4]))

    path.write_bytes(unary("Neg", [2]))
    with run_service(tmp_path / "log", path, "--idle", 0.3) as service:
        assert infer().facts["outputs"][0]["data"] == [3, -4]
        replace(unary("Abs", [2]))
        assert infer().facts["outputs"][0]["data"] == [3, 4]
        replace(b"no model")
        assert infer().status == 500
        assert service.ask("/v2/health/ready").status == 503
        assert service.ask("/v2/models/m/ready").facts == {"name": "m", "ready": False}
        replace(unary("Relu", [2]))
        wait_until(lambda: service.ask("/v2/health/ready").status == 200)
        assert infer().facts["outputs"][0]["data"] == [0, 4]


def test_a_model_that_is_replaced_while_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, create = tmp_path / "m.onnx", LearningModelSession.create_async
    path.write_bytes(unary("Neg", [2]))
    (tmp_path / "new").write_bytes(unary("Abs", [2]))

    def replace_and_create(*arguments: Any) -> Any:
        monkeypatch.setattr(LearningModelSession, "create_async", create)
        os.replace(tmp_path / "new", path)
        return create(*arguments)

    app = serve.app({"m": path})
    monkeypatch.setattr(LearningModelSession, "create_async", replace_and_create)
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [-3, 4]}]}).encode()
    status, facts = asyncio.run(get(app, "/v2/models/m/infer", body))
    assert (status, facts["outputs"][0]["data"]) == (200, [3, 4])


@pytest.mark.posix("GetProcessTimes of Wine tells no times of other processes")
def test_an_engine_that_dies(tmp_path: Path, folder: Path) -> None:
    with run_service(tmp_path / "log", folder / "loop.onnx", MODELS / "digits.onnx", "--isolated") as service:
        spent = {one: one.cpu_times().user for one in service.engines()}
        assert len(spent) == 2
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(count(service, HOUR)))
        thread.start()
        wait_until(lambda: any(one.cpu_times().user > before + 0.3 for one, before in spent.items()))
        (busy,) = (one for one, before in spent.items() if one.cpu_times().user > before + 0.3)
        busy.kill()
        thread.join()
        assert (answers[0].status, answers[0].headers["retry-after"]) == (503, "1")
        assert "ended" in answers[0].facts["error"]
        assert service.ask("/models/digits", SEVEN).status == 200
        assert count(service, 3).status == 200  # with another process
        assert b'winml_engines_lost_total{model="loop"} 1.0' in service.ask("/metrics").body
        assert service.lines("loop: The engine was lost. Creating another one.")


def test_an_isolated_run_for_a_client_that_has_left_ends_with_its_time(tmp_path: Path, folder: Path) -> None:
    with run_service(tmp_path / "log", folder / "loop.onnx", "--isolated", "--max-seconds", 2) as service:
        for _ in range(LearningModelSessionOptions().intra_op_num_threads):
            leave_counting(service)
        wait_until(lambda: count(service, 3).status == 200)  # no core counts for hours


def test_what_runs_is_finished(tmp_path: Path, folder: Path) -> None:
    service = Service(tmp_path / "log", folder / "loop.onnx")
    service.wait_ready()
    steps = 1 << 19
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(count(service, steps)))
    thread.start()
    time.sleep(0.15)
    assert service.close("SIGINT") == 0
    thread.join()
    assert answers[0].status == 200


def test_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(unary("Nothing"))
    assert "Nothing" in require_failure(3, "serve", tmp_path / "bad.onnx", "--port", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for host, number in (("127.0.0.1", port), ("192.0.2.1", 0)):  # a port that is taken; an address of no machine
            words = require_failure(4, "serve", MODELS / "digits.onnx", "--host", host, "--port", number)
            assert f"The port {number} is not available on {host}: " in words
    words = require_failure(2, "serve", MODELS / "digits.onnx", MODELS / "digits.onnx")
    assert "Another model is already named digits. To choose a different name, pass NAME=" in words
    two = (MODELS / "digits.onnx", MODELS / "shapes.onnx", "--labels", MODELS / "digits.labels.txt")
    assert "can be used with only one model. For several, put a labels.txt" in require_failure(2, "serve", *two)
    words = require_failure(4, "serve", MODELS / "digits.onnx", "--port", 0, "--allow-host", "http://x y/")
    assert "'http://x y/' does not appear" in words


def test_the_labels_of_a_model_that_has_none(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("\n".join(f"digit {number}" for number in range(10)))
    with run_service(tmp_path / "log", MODELS / "digits.onnx", "--labels", tmp_path / "labels.txt") as made:
        (result,) = made.ask("/models/digits", SEVEN).facts["results"]
    assert result["outputs"]["probabilities"]["top"][0]["label"] == "digit 7"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("winml_py.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    words = require_failure(7, "serve", MODELS / "digits.onnx", "--port", 0)
    assert "needs prometheus_client, which is not installed. Run pip install 'winml-py[serve]'" in words
