"""`winml-py profile`: sums that add up, and a page that needs nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from build import tensor, unary
from conftest import MODELS
from onnx import helper
from test_cli import call, failure

from winml_py import IllegalCallError
from winml_py.cache import answers
from winml_py.perf import Case
from winml_py.runtime.providers.provider import ProviderDevice
from winml_py.tools.perf import page as pages
from winml_py.tools.perf.profile import Profile, profile, read

pytestmark = pytest.mark.one_python

DIGITS = str(MODELS / "digits.onnx")


def event(name: str, start: float, duration: float, operator: str = "", thread: int = 1) -> dict[str, Any]:
    kind = "Node" if operator else "Session"
    arguments = {"op_name": operator, "provider": "CPUExecutionProvider"} if operator else {}
    name = f"{name}_kernel_time" if operator else name
    return {"cat": kind, "name": name, "ts": start, "dur": duration, "tid": thread, "args": arguments}


def made(*events: dict[str, Any]) -> Profile:
    return read(json.dumps(events).encode())


def test_the_first_evaluation_is_left_out() -> None:
    profiled = made(
        event("model_run", 0, 100),
        event("a", 10, 80, "Conv"),
        event("model_run", 200, 50),
        event("a", 205, 30, "Conv"),
        event("b", 240, 5, "Relu"),
        event("model_run", 300, 40),
        event("a", 305, 20, "Conv"),
        event("b", 330, 7, "Relu"),
    )
    assert profiled.evaluations == 2
    assert profiled.total == 45
    assert [(node.name, node.operator, node.time) for node in profiled.nodes] == [("a", "Conv", 25), ("b", "Relu", 6)]
    assert profiled.outside == 14
    with pytest.raises(IllegalCallError, match="Fewer than two"):
        made(event("model_run", 0, 100))


def test_nodes_inside_a_loop_are_not_counted_twice() -> None:
    profiled = made(
        event("model_run", 0, 1),
        event("model_run", 10, 100),
        event("loop", 10, 90, "Loop"),
        event("body", 20, 30, "Add"),
        event("inner", 25, 10, "If"),
        event("body", 60, 20, "Add"),
        event("elsewhere", 15, 40, "Mul", thread=2),
    )
    assert {node.name: node.time for node in profiled.nodes} == {"loop": 40, "body": 40, "inner": 10, "elsewhere": 40}
    assert profiled.outside == -30  # nodes ran at the same time


def test_sums_add_up_to_the_trace(seven: Path) -> None:
    profiled = profile(Case(DIGITS, (str(seven),)), 5)
    events = json.loads(profiled.trace)
    runs = sorted((e for e in events if e["name"] == "model_run"), key=lambda e: e["ts"])[1:]
    kernels = [e for e in events if e["name"].endswith("_kernel_time") and e["ts"] >= runs[0]["ts"]]
    assert (len(runs), profiled.evaluations) == (5, 5)
    assert profiled.total == sum(run["dur"] for run in runs) / 5
    assert sum(node.time for node in profiled.nodes) == pytest.approx(sum(e["dur"] for e in kernels) / 5)
    assert sum(profiled.sums(lambda node: node.operator).values()) + profiled.outside == pytest.approx(profiled.total)
    assert profiled.sums(lambda node: node.provider).keys() == {"CPUExecutionProvider"}


def _map(html: str) -> dict[str, Any]:
    """The numbers of the treemap that the page draws."""
    start = html.index("[", html.index("Plotly.newPlot("))
    traces, _ = json.JSONDecoder().raw_decode(html[start:])
    figures: dict[str, Any] = traces[0]
    return figures


def test_the_pages_map_adds_up(tmp_path: Path, seven: Path) -> None:
    target = tmp_path / "profile.html"
    result = call("profile", DIGITS, seven, "--html", target, "--trace", tmp_path / "trace.json", "--json", "-n", 3)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert read((tmp_path / "trace.json").read_bytes()).total == facts["total_us"]
    html = target.read_text()
    figures = _map(html)
    values = dict(zip(figures["ids"], figures["values"], strict=True))
    assert values["all"] == pytest.approx(facts["total_us"])
    for parent in {*figures["parents"]} - {""}:
        inside = [v for p, v in zip(figures["parents"], figures["values"], strict=True) if p == parent]
        assert sum(inside) == pytest.approx(values[parent])
    for node in facts["nodes"]:
        assert f">{node['name']}</td>" in html


def test_the_page_names_nothing_on_the_network(seven: Path) -> None:
    html = pages.page(profile(Case(DIGITS, (str(seven),)), 2))
    assert re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=|<link[^>]*href=(?!\"data:)|@import", html) == []
    assert "prefers-color-scheme: dark" in html


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_browser_shows_the_page_without_a_request(tmp_path: Path, seven: Path) -> None:
    target, log = tmp_path / "profile.html", tmp_path / "net.json"
    target.write_text(pages.page(profile(Case(DIGITS, (str(seven),)), 2)))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    command += [f"--user-data-dir={tmp_path / 'user'}", "--disable-background-networking", "--disable-component-update"]
    command += [f"--log-net-log={log}", "--dump-dom", target.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert 'class="slice' in dom  # the map was drawn
    requests = {url for url in re.findall(r'"url":"([^"]+)"', log.read_text()) if url.startswith(("http", "ws"))}
    browsers_own = re.compile(r"https?://[^/]*(google|gstatic|gvt1|chromium)[^/]*/")
    assert {url for url in requests if not browsers_own.match(url)} == set()


def test_names_are_escaped(tmp_path: Path) -> None:
    node = helper.make_node("Neg", ["x"], ["y"], name="<script>alert(1)</script>")
    path = tmp_path / "m.onnx"
    from build import data

    path.write_bytes(data([node], [tensor("x", [2])], [tensor("y", [2])]))
    html = pages.page(profile(Case(str(path)), 2))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_table_is_for_people(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(unary("Neg", [2]))
    lines = call("profile", path, "-n", 2).stdout.splitlines()
    assert lines[1].split() == ["node", "operator", "provider", "us", "%"]
    assert lines[2].split()[1:3] == ["Neg", "CPU"]
    assert lines[3].startswith("outside the nodes")


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no folder" in failure(5, "profile", DIGITS, "--html", tmp_path / "missing" / "p.html")
    assert "not found" in failure(3, "profile", "missing.onnx")
    monkeypatch.setitem(__import__("sys").modules, "plotly.graph_objects", None)
    assert "winml-py[tools]" in failure(7, "profile", DIGITS, "--html", tmp_path / "p.html", "-n", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.kept
def test_the_choice_of_an_engine_is_not_recorded(openvino: ProviderDevice, seven: Path) -> None:
    for _ in range(2):  # measured, and remembered
        profiled = profile(Case(DIGITS, (str(seven),), engine="auto"), 3)
        assert profiled.evaluations == 3
    assert len(answers.entries()) == 1


def test_settings_name_the_engine() -> None:
    both = ("--settings", "s.json", "--engine", "auto")
    assert "leave --engine and --precision out" in failure(2, "profile", DIGITS, *both)
