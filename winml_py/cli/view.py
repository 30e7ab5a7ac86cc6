"""`winml-py view`: a page that shows what a model sees."""

from __future__ import annotations

import webbrowser
from threading import Thread

import click

from ..core.base.messages import Facts
from ..core.contracts.labels import labels_of
from ..core.runtime.device import LearningModelDevice
from .arguments import device_option, json_option, labels_option
from .failures import prefix_errors
from .style import emit, print_line


@click.command()
@click.argument("model", type=click.Path(), required=False)
@click.argument("picture", type=click.Path(), required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port, or 0 for a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
@labels_option
@device_option
@json_option
def view(
    model: str | None,
    picture: str | None,
    port: int,
    no_browser: bool,
    labels: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Open a local web page that shows how MODEL processes PICTURE.

    The page shows the part of PICTURE that the model uses, the tensor as a picture, the answer and the times. To stop
    it, press Ctrl-C or close the terminal.
    """
    from ..view.server import PageServer
    from ..view.workbench import Workbench

    LearningModelDevice.find(device)  # before a browser opens
    bench = Workbench(device, labels_of(labels) if labels else ())
    try:
        if model is not None:
            with prefix_errors(model):
                bench.first_model = bench.open_model(model)
        if picture is not None:
            with prefix_errors(picture):
                bench.first_picture = bench.open_picture(picture)
        server = PageServer(bench, port)
    except BaseException:
        bench.close()
        raise
    facts: Facts = {"model": model, "picture": picture, "address": server.address}
    emit(facts, as_json, lambda facts: click.echo(facts["address"]))
    if not as_json:
        print_line("Anyone with this address can use the page. To stop the server, press Ctrl-C.", is_error=True)
    if not no_browser:
        Thread(target=webbrowser.open, args=(server.make_browser_address(),), daemon=True).start()
    server.run()
