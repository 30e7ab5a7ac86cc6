"""The program `winml-py`."""

from __future__ import annotations

from typing import Any

import click

from .. import __version__
from ..core.base.messages import did_you_mean
from .cache import cache
from .contract import contract
from .convert import convert
from .devices import devices
from .doctor import doctor
from .edit import edit
from .examples import examples
from .failures import asks_for_json, cautions, errors_in_json, failures, output_asked_for
from .info import info
from .join import join
from .map import map_command
from .optimize import optimize
from .perf import perf
from .profile import profile
from .run import run
from .style import show_streams
from .tune import tune
from .view import view

_AS_JSON = "winml_py.as_json"


class _Program(click.Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            raise click.UsageError(f"There is no command {args[0]!r}. {did_you_mean(args[0], self.commands)}", ctx)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> Any:
        with show_streams():
            return super().main(*args, **extra)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # In the words themselves: where they cannot be parsed, there is no option yet, and the error is JSON, too.
        as_json = asks_for_json(args)
        with errors_in_json(as_json):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[_AS_JSON] = as_json
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        with errors_in_json(ctx.meta[_AS_JSON], ctx), output_asked_for(), failures(), cautions():
            return super().invoke(ctx)


@click.group(
    cls=_Program,
    commands=[
        cache,
        contract,
        convert,
        devices,
        doctor,
        edit,
        examples,
        info,
        join,
        map_command,
        optimize,
        perf,
        profile,
        run,
        tune,
        view,
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="winml-py")
def main() -> None:
    """Run ONNX models the Windows ML way: load, bind, evaluate.

    Exit codes: 1 run, 2 usage, 3 model, 4 input, 5 output, 6 device, 7 package.
    """
