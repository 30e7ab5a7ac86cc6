"""The program `winml-py`."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from itertools import takewhile
from typing import Any

import click

from .. import __version__
from .failures import convert_errors, print_contract_warnings, print_errors_as_json
from .style import escape_streams

_AS_JSON = "winml_py.as_json"


class _Commands(UserDict[str, Any]):
    """The commands by name. Each is imported when it is asked for: all of them would take as long as a small run."""

    def __getitem__(self, name: str) -> Any:
        return getattr(import_module(f".{self.data[name]}", __package__), name)


class _Program(click.Group):
    def main(self, *args: Any, **extra: Any) -> Any:
        with escape_streams():
            return super().main(*args, **extra)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # Looks in the raw arguments: if parsing them fails, there is no option yet, and the error must be JSON too.
        words = takewhile(lambda word: word != "--", args)
        as_json = next((word for word in words if word in ("--json", "--json-lines")), "")
        with print_errors_as_json(as_json):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[_AS_JSON] = as_json
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        with print_errors_as_json(ctx.meta[_AS_JSON], ctx), convert_errors(), print_contract_warnings():
            return super().invoke(ctx)


@click.group(
    cls=_Program,
    commands=_Commands(
        {name: name for name in ("compare", "contract", "convert", "doctor", "examples", "info", "perf", "run")}
        | {"devices": "doctor", "serve": "serve", "tune": "tune", "view": "view"}
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="winml-py")
def main() -> None:
    """Run ONNX models as Windows ML does: load, bind, evaluate.

    Exit codes: 1 run, 2 usage, 3 model, 4 input, 5 output, 6 device, 7 package.
    """
