"""Uses the pages of the graph and of edits of `winml-py view`, with models that are meant to break them.

`view_check` runs it. Each page is looked at on a screen, in the dark, and on a phone: a graph is drawn, a table has its
nodes, a word is edited, and nothing of a model becomes an element.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import Browser, Page

from helpers.paths import MODELS
from tools.view_check_browser import SECONDS, Window, program

MARKUP = '<img src=x onerror="window.struck=1"><style>*{display:none}</style>'
"""A name that would be seen as a picture that is not there, and as an empty page."""

NODES = 5000

_LOOK = """
() => {
  const found = [];
  if (window.struck) found.push("ran a script of the model's");
  if (document.querySelector("body :is(img, style, script, a[href*='//'])")) found.push("has markup of the model's");
  return found;
}
"""
_OPEN_MORE = """
() => {
  const more = document.querySelectorAll(".sidebar-item-value-expander, .sidebar-item-value-button");
  more.forEach((button) => button.click());
  return [];
}
"""


def hostile_model() -> onnx.ModelProto:
    """A model whose every name and word is markup, with a function and a weight."""
    opset = helper.make_opsetid("", 17)
    body = [helper.make_node("Relu", ["a"], ["b"], name=f"{MARKUP}inner")]
    function = helper.make_function("own", f"{MARKUP}function", ["a"], ["b"], body, [opset])
    function.doc_string = (
        f"{MARKUP} [link](http://example.com) ![picture](http://example.com/x.png) <script>window.struck=1</script>"
    )
    nodes = [
        helper.make_node(f"{MARKUP}function", [f"{MARKUP}in"], ["between"], domain="own", name=f"{MARKUP}call"),
        helper.make_node("Sin", ["between"], [f"{MARKUP}sine"], name=f"{MARKUP}sin", doc_string=MARKUP),
        helper.make_node("Add", [f"{MARKUP}sine", f"{MARKUP}weight"], [f"{MARKUP}out"], name=f"{MARKUP}add"),
    ]
    taken = helper.make_tensor_value_info(f"{MARKUP}in", TensorProto.FLOAT, [1, f"{MARKUP}size", 8], MARKUP)
    taken.type.denotation = MARKUP
    given = helper.make_tensor_value_info(f"{MARKUP}out", TensorProto.FLOAT, None)
    weight = numpy_helper.from_array(np.ones(8, np.float32), f"{MARKUP}weight")
    graph = helper.make_graph(nodes, f"{MARKUP}graph", [taken], [given], [weight], doc_string=MARKUP)
    model = helper.make_model(
        graph,
        opset_imports=[opset, helper.make_opsetid("own", 1)],
        ir_version=9,
        functions=[function],
        producer_name=MARKUP,
        doc_string=MARKUP,
    )
    helper.set_model_props(model, {f"{MARKUP}key": MARKUP})
    return model


def large_model(count: int = NODES) -> onnx.ModelProto:
    """A model of many nodes, every seventh with a second input from further above."""
    names = ["x", *(f"v{place}" for place in range(count))]
    nodes = [
        helper.make_node("Add", [names[place], names[max(0, place - 3)]], [names[place + 1]], name=f"add{place}")
        if place % 7 == 0
        else helper.make_node("Sin", [names[place]], [names[place + 1]], name=f"sin{place}")
        for place in range(count)
    ]
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])
    given = helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "large", [taken], [given])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def check_graphs(browser: Browser, folder: Path, pictures: Path | None) -> list[Window]:
    """Uses both pages of each model in each view.

    Args:
        browser: Chromium.
        folder: for models.
        pictures: a folder for screenshots.

    Returns:
        A window of each model, with everything that is wrong in it.
    """
    paths, windows = {"shapes": MODELS / "shapes.onnx"}, []
    for name, model in {"hostile": hostile_model(), "large": large_model()}.items():
        paths[name] = folder / f"{name}.onnx"
        onnx.save(model, paths[name])
    for name, path in paths.items():
        with program(path) as address:
            window = Window(browser.new_context(), address, pictures)
            window.page.goto(address)
            window.page.wait_for_function("() => location.search.includes('model=')")
            query = urlsplit(window.page.url).query
            for kind, work in {"graph": _graph, "edit": _edit}.items():
                window.page.goto(f"{address}{kind}.html?{query}")
                window.page.wait_for_selector("body[data-state=ready]", timeout=SECONDS * 1000)
                found = [*work(window.page), *window.page.evaluate(_LOOK)]
                window.wrong += [f"{name}, {kind}: {what}" for what in found]
                window.look(f"{name} {kind}")
            windows.append(window)
    return windows


def _graph(page: Page) -> Iterator[str]:
    """The table, and everything in Netron's drawing that opens something."""
    if not page.locator("#measured tbody tr").count():
        yield f"the table is empty: {page.locator('#measured').inner_text()}"
    heads = page.locator("#origin .node-item-type, #origin .node-item-function")
    if not heads.count():
        yield f"nothing is drawn: {page.locator('#notice').inner_text()}"
    for place in range(min(4, heads.count())):
        if place >= heads.count():  # a function was opened, which has fewer nodes
            break
        heads.nth(place).dispatch_event("click")
        page.wait_for_timeout(250)
        if not page.locator("#sidebar-content").inner_text().strip():
            yield f"a click on node {place} opens nothing"
        yield from page.evaluate(_OPEN_MORE)
        page.wait_for_timeout(250)
        yield from page.evaluate(_LOOK)
    for which in ("#sidebar-model-button", "#sidebar-target-button"):
        page.locator(which).dispatch_event("click")
        page.wait_for_timeout(250)
        if not page.locator("#sidebar-content").inner_text().strip():
            yield f"{which} shows nothing"
        yield from page.evaluate(_LOOK)


def _edit(page: Page) -> Iterator[str]:
    """A change of a word is written to a file for downloading."""
    page.get_by_label("name", exact=True).first.fill("another name")
    with page.expect_download(timeout=SECONDS * 1000) as download:
        page.click("#save-download")
    written = onnx.load(download.value.path())
    if written.graph.name != "another name":
        yield f"the file has the name {written.graph.name!r}"
