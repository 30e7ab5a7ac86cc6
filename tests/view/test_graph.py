"""The page of the graph: which of Netron's files are served, and what ran where beside the nodes of the file."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("netron")
pytest.importorskip("starlette")

from helpers.asgi import Client
from helpers.pages import served
from helpers.paths import ROOT
from helpers.waiting import wait_until
from winml_py._inputs.model import Case
from winml_py._inputs.trial import Running
from winml_py.errors import CanceledError, ModelNotFoundError
from winml_py.perf.profile import Node, NodeOnCpu, Profile, profile
from winml_py.view import graph, placed_nodes

NETRON = graph.netron_folder() or Path()


@dataclass
class Opened:
    """A model that is open, as the pages need it."""

    path: str
    is_here: bool = True
    running: Running = field(default_factory=Running)

    @property
    def name(self) -> str:
        return Path(self.path).name

    @property
    def case(self) -> Case:
        return Case(self.path)


class Bench:
    """What the pages need of a workbench."""

    def __init__(self, *paths: str, is_here: bool = True) -> None:
        self.folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, self.folder)
        self.models = {str(place): Opened(path, is_here) for place, path in enumerate(paths)}

    def find_model(self, key: str = "") -> Opened:
        if not self.models:
            raise ModelNotFoundError("There is no model file to show.", hint="Open a model first.")
        return self.models[key or "0"]

    def new_file(self, ending: str = "") -> str:
        return os.path.join(self.folder, f"{uuid.uuid4()}{ending}")


def client_of(path: str | Path | None) -> Client:
    return Client(graph.routes(Bench(*([] if path is None else [str(path)]))))


@pytest.fixture
def client() -> Client:
    return client_of(ROOT / "models" / "shapes.onnx")


# Netron's files.


def test_the_files_that_the_page_takes_are_those_of_the_package(client: Client) -> None:
    for name in graph.FILES:
        assert client.get(f"/graph/netron/{name}").content == (NETRON / name).read_bytes()


def test_nothing_that_is_served_starts_netrons_telemetry() -> None:
    assert "new base.Telemetry" in (NETRON / "browser.js").read_text(encoding="utf-8")
    for name in graph.FILES:
        assert not re.search(r"new (base\.)?Telemetry", (NETRON / name).read_text(encoding="utf-8"))


def test_the_style_is_that_of_netrons_page(client: Client) -> None:
    style = client.get("/graph/netron/index.css")
    assert style.headers["content-type"].startswith("text/css")
    assert style.text.strip() in (NETRON / "index.html").read_text(encoding="utf-8")
    assert "<" not in style.text


@pytest.mark.parametrize(
    "name",
    [
        "browser.js",
        "server.py",
        "../netron/view.js",
        "%2e%2e/%2e%2e/starlette/routing.py",
        "..%5cnetron%5cview.js",
        "view.js%00",
        "/etc/passwd",
        "",
    ],
)
def test_no_other_file_is_served(client: Client, name: str) -> None:
    answer = client.get(f"/graph/netron/{name}")
    assert answer.status_code in (307, 404)
    assert "class" not in answer.text


def test_without_netron_the_page_says_how_to_install_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "netron_folder", lambda: None)
    facts = client.get("/graph/facts").json()
    assert (facts["netron"], facts["hint"]) == (False, "Install it: pip install 'winml-py[view]'")
    assert client.get("/graph/netron/view.js").status_code == 404
    assert client.get("/graph/nodes").json()["nodes"]


# The model.


def test_the_model_is_served_as_it_is(client: Client) -> None:
    assert client.get("/graph/model").content == (ROOT / "models" / "shapes.onnx").read_bytes()


def test_a_large_model_is_served_without_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [numpy_helper.from_array(np.ones(size, np.float32), f"w{size}") for size in (10, 100_000)]
    node = helper.make_node("Identity", ["w10"], ["y"])
    made = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [10])], weights)
    onnx.save(helper.make_model(made), tmp_path / "large.onnx")
    monkeypatch.setattr(graph, "WHOLE_MODEL", 1000)
    client = client_of(tmp_path / "large.onnx")
    assert client.get("/graph/facts").json()["whole"] is False
    data = client.get("/graph/model").content
    small, large = onnx.load_from_string(data).graph.initializer
    assert small == weights[0]
    assert (list(large.dims), large.raw_data, large.data_location) == ([100_000], b"", TensorProto.EXTERNAL)


@pytest.mark.parametrize("address", ["facts", "model", "nodes"])
@pytest.mark.parametrize("path", [None, "gone.onnx"])
def test_without_a_model_there_is_nothing_to_show(address: str, path: str | None) -> None:
    client = client_of(path)
    answer = client.get(f"/graph/{address}")
    assert answer.status_code == 404
    assert (answer.json()["error"], answer.json()["hint"]) == ("There is no model file to show.", "Open a model first.")


# What ran where.


@pytest.mark.parametrize("name", ["shapes", "edges"])
def test_the_table_has_the_nodes_of_the_profile(name: str) -> None:
    path = ROOT / "models" / f"{name}.onnx"
    client = client_of(path)
    answer = client.get("/graph/nodes").json()
    expected = profile(Case(str(path)), 2)
    rows = {(row["name"], row["operator"], row["provider"]) for row in answer["nodes"]}
    assert rows == {(node.name, node.operator, node.provider) for node in expected.nodes}
    assert {row["place"] for row in answer["nodes"]} == {"CPU"}
    assert answer["device"] == expected.device
    assert answer["evaluations"] == placed_nodes.EVALUATIONS


def test_what_was_measured_is_kept_until_it_is_asked_for_again(client: Client) -> None:
    first = client.get("/graph/nodes").json()
    assert client.get("/graph/nodes").json() == first
    again = client.post("/graph/nodes").json()
    assert again != first
    assert client.get("/graph/nodes").json() == again


def made_graph() -> onnx.GraphProto:
    """Names and none, a constant, a chain that is fused, a loop's body."""
    number = numpy_helper.from_array(np.ones(1, np.float32))
    body_node = helper.make_node("Neg", ["d"], ["inner"], name="in the body")
    body = helper.make_graph([body_node], "body", [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)])
    nodes = [
        helper.make_node("Constant", [], ["k"], value=number),
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("Add", ["a", "k"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"], name="relu"),
        helper.make_node("Sin", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "k"], ["e"], name="product"),
        helper.make_node("If", ["choice"], ["f"], name="if", then_branch=body, else_branch=body),
        helper.make_node("Cos", ["e"], ["g"], name="left"),
    ]
    return helper.make_graph(nodes, "g", [], [])


@pytest.mark.parametrize(
    ("kernel", "operator", "covers"),
    [
        ("conv", "Conv", ["a"]),
        ("Sin_3", "Sin", ["d"]),  # the fourth of the nodes, for the constant is none
        ("c_nchwc", "Conv", ["a", "b", "c"]),
        ("InsertedPrecisionFreeCast_c_nchwc", "Conv", ["a", "b", "c"]),
        ("d_nchwc", "MaxPool", ["d"]),
        ("product/MatMulScaleFusion/", "FusedMatMul", ["e"]),
        ("product/MatMulAddFusion", "Gemm", ["e"]),
        ("in the body", "Neg", ["inner"]),
        ("ReorderOutput_token_5", "ReorderOutput", []),
        ("Sin_4", "Sin", []),
        ("nothing_nchwc", "Conv", []),
    ],
)
def test_kernels_cover_the_nodes_that_they_were_made_of(kernel: str, operator: str, covers: list[str]) -> None:
    measured = Profile("m", "d", "e", 1, 1.0, (Node(kernel, operator, "CPUExecutionProvider", 1.0),))
    facts = placed_nodes.place(measured, made_graph())
    [row] = facts["nodes"]
    assert row["covers"] == covers
    assert row["is_optimizers"] is (kernel not in ("conv", "Sin_3", "in the body"))
    assert {"a", "b", "c", "d", "e", "f", "g", "inner"} - {node["key"] for node in facts["unplaced"]} == set(covers)


def test_the_gpus_time_and_the_runtimes_reason_are_in_the_table() -> None:
    nodes = (
        Node("conv", "Conv", "WebGpuExecutionProvider", 3.0, 50.0),
        Node("product", "MatMul", "CPUExecutionProvider", 7.0),
    )
    on_cpu = (NodeOnCpu("product", "MatMul", "it is small"),)
    facts = placed_nodes.place(Profile("m", "d", "e", 1, 60.0, nodes, on_cpu=on_cpu), made_graph())
    wanted = [(row["place"], row["busy_us"], row["reason"]) for row in facts["nodes"]]
    assert wanted == [("WebGpu", 50.0, ""), ("CPU", 7.0, "it is small")]
    assert "kernels" in facts["caution"]
    json.dumps(facts, allow_nan=False)


def test_a_model_that_ends_its_process_takes_nothing_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed_nodes, "measure", _end)
    client = client_of(ROOT / "models" / "edges.onnx")
    answer = client.get("/graph/nodes")
    assert answer.status_code == 422
    assert "ended the process" in answer.json()["error"]


def test_a_model_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed_nodes, "measure", _wait)
    monkeypatch.setattr(placed_nodes, "SECONDS", 0.5)
    client = client_of(ROOT / "models" / "edges.onnx")
    answer = client.get("/graph/nodes")
    assert answer.status_code == 422
    assert answer.json()["error"] == "It took longer than 0 seconds, and was stopped."


def test_the_measurement_can_be_stopped_from_the_page() -> None:
    running = Running()
    stopper = threading.Timer(0.5, running.stop)
    stopper.start()
    with pytest.raises(CanceledError, match="stopped"):
        placed_nodes.call_apart(60, running, _wait, Case("m"), 1)
    stopper.join()


def test_a_measurement_ends_with_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed_nodes, "measure", _wait)
    with ThreadPoolExecutor(1) as pool:
        with served() as page:
            opened = page.bench.find_model(page.bench.open_model(str(ROOT / "models" / "edges.onnx")))
            asked = pool.submit(page.ask, f"/{page.token}/graph/nodes")
            wait_until(lambda: opened.running.count == 1)
        assert json.loads(asked.result()[2])["error"] == "It was stopped."


def _end(case: Case, evaluations: int) -> object:
    import os

    os.abort()


def _wait(case: Case, evaluations: int) -> object:
    import time

    time.sleep(60)
    return {}
