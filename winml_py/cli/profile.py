"""`winml-py profile`: which nodes take the time."""

from __future__ import annotations

import click

from ..base.atomic_files import require_folder, written_to, written_whole
from ..tools.perf.case import Case
from ..tools.perf.page import page
from ..tools.perf.profile import OUTSIDE, Profile
from ..tools.perf.profile import profile as record
from .failures import failures
from .style import emit, json_option, progress, say, show

ROWS = 15


@click.command()
@click.argument("model", type=click.Path())
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option("--html", type=click.Path(), metavar="FILE", help="Write a page with a map of operators and nodes.")
@click.option("--trace", type=click.Path(), metavar="FILE", help="Write the recording, for Perfetto.")
@click.option("-n", "--iterations", type=click.IntRange(1), default=20, show_default=True, help="After the first.")
@click.option("--device", default="cpu", show_default=True, help="Or gpu, or a name.")
@click.option("--engine", help="auto, openvino, ...  [default: onnxruntime]")
@click.option("--settings", type=click.Path(), help="What `winml-py tune --output` wrote.")
@json_option
def profile(
    model: str,
    inputs: tuple[str, ...],
    html: str | None,
    trace: str | None,
    iterations: int,
    device: str,
    engine: str | None,
    settings: str | None,
    as_json: bool,
) -> None:
    """Show which nodes of MODEL take the time, on INPUT or on made-up values.

    The page of --html is one file, which asks the network for nothing; drawing it takes plotly.
    """
    if settings and engine:
        raise click.UsageError("--settings names the engine; leave --engine out.")
    with failures():
        for path in filter(None, (html, trace)):
            require_folder(path)
        with progress("profiling") as tell:
            tell(0.1)
            profiled = record(Case(model, inputs, device, engine or "onnxruntime", settings=settings or ""), iterations)
        if html:
            _write(html, page(profiled).encode())
        if trace:
            _write(trace, profiled.trace)
    if as_json:
        emit(profiled.to_json())
    else:
        _print(profiled)


def _write(path: str, data: bytes) -> None:
    with written_to(path), written_whole(path) as file:
        file.write(data)


def _print(profiled: Profile) -> None:
    total = profiled.total
    say(f"{profiled.model} on {profiled.device}: {total / 1e3:,.3f} ms, mean of {profiled.evaluations}", "bold")
    rows = [
        [node.name, node.operator, node.provider.removesuffix("ExecutionProvider"), *_figures(node.time, total)]
        for node in profiled.nodes[:ROWS]
    ]
    rest = profiled.nodes[ROWS:]
    if rest:
        rows.append([f"{len(rest)} more nodes", "", "", *_figures(sum(node.time for node in rest), total)])
    rows.append([OUTSIDE, "", "", *_figures(profiled.outside, total)])
    show(["node", "operator", "provider", "us", "%"], rows, left=3)


def _figures(time: float, total: float) -> list[str]:
    return [f"{time:,.1f}", f"{100 * time / total:.1f}" if total else ""]
