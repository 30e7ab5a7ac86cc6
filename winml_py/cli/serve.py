"""`winml-py serve`: models behind HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..core.base.messages import Facts
from ..core.contracts.labels import labels_of
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from .arguments import Setup, isolated_option, json_option, labels_option, setup_options
from .failures import prefix_errors
from .files import list_models
from .style import emit, print_line


@click.command()
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address to listen on.  [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, metavar="N", help="The port, or 0 for a free one.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A host that clients use, or *. Repeatable.")
@click.option("--idle", type=click.FloatRange(0), default=0, metavar="S", help="Close a model after S idle seconds.")
@click.option("--max-waiting", "waiting", type=click.IntRange(1), metavar="N", help="Concurrent requests.  [128]")
@click.option("--max-seconds", "seconds", type=click.FloatRange(0.1), metavar="S", help="Seconds per request.  [30]")
@click.option("--max-bytes", type=click.IntRange(1), metavar="N", help="Bytes per request.  [64 MB]")
@click.option("--max-pixels", type=click.IntRange(1), metavar="N", help="Pixels per picture.  [50 million]")
@click.option("--log", type=click.Choice(("text", "json")), default="text", metavar="KIND", help="Log as text or json.")
@labels_option
@setup_options
@isolated_option
@json_option
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    names: tuple[str, ...],
    idle: float,
    log: str,
    labels: str | None,
    setup: Setup,
    isolated: bool,
    as_json: bool,
    **limits: Any,
) -> None:
    """Serve models over HTTP.

    Clients send a picture to POST /models/NAME, or use the KServe protocol. A MODEL is a file, NAME=FILE, a published
    folder, or a folder of models. To stop the service after the running requests, press Ctrl-C.
    """
    from .._http import Hosts
    from ..serve.models import ServedModel
    from ..serve.server import ModelServer
    from ..serve.service import Limits, Service, write_example_call

    setup = replace(setup, isolated=isolated)
    Hosts(names)  # refused before models are read, as is a device
    device = LearningModelDevice.find(setup.device)
    files = _name_models(models)
    if labels and len(files) > 1:
        hint = "For several, put a labels.txt in each model's folder, and serve the folders."
        raise click.UsageError(f"--labels can be used with only one model. {hint}")
    served = []
    for name, path in files.items():
        with prefix_errors(path, labels, setup.settings):
            names_of_classes = labels_of(labels) if labels else ()
            served.append(ServedModel(name, partial(_load, setup, path), device, idle, names_of_classes))
    server = ModelServer(host, port)
    stated = {name: limit for name, limit in limits.items() if limit is not None}
    service = Service(served, Limits(hosts=frozenset(server.hosts.union(names)), **stated))
    calls = [write_example_call(server.address, model.name, model.model) for model in served]
    facts: Facts = {"address": server.address, "models": [model.name for model in served]}
    emit(facts, as_json, lambda facts: click.echo("\n  ".join([facts["address"], *calls])))
    if server.is_public:
        print_line(
            "Other machines can reach it, and it does not authenticate clients. Use a proxy that does.", is_error=True
        )
    server.run(service, log == "json")


def _load(setup: Setup, path: str) -> tuple[LearningModel, LearningModelSessionOptions]:
    model = setup.load(path)
    options = setup.make_options(model)
    if not setup.settings:
        options.intra_op_num_threads = 1  # requests are evaluated concurrently, one per core
    return model, options


def _name_models(words: Iterable[str]) -> dict[str, str]:
    """The file of each model by its name: NAME=FILE, or the file's name without its ending."""
    files: dict[str, str] = {}
    for word in words:
        stated_name, equals, path = ("", "", word) if os.path.exists(word) else word.partition("=")
        for file in list_models(path if equals else word):
            name = stated_name if equals else Path(file).name.removesuffix(".onnx")
            if name in files:
                raise click.UsageError(
                    f"{file}: Another model is already named {name}. To choose a different name, pass NAME={file}."
                )
            files[name] = file
    return files
