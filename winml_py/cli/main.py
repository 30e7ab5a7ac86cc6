"""The program `winml-py`."""

from __future__ import annotations

from typing import Any

import click

from .. import __version__
from .cache import cache
from .contract import contract
from .convert import convert
from .devices import devices
from .doctor import doctor
from .failures import cautions, failures
from .info import info
from .optimize import optimize
from .perf import perf
from .profile import profile
from .run import run
from .streams import shown_streams
from .tune import tune


class _Program(click.Group):
    def main(self, *args: Any, **extra: Any) -> Any:
        with shown_streams():
            return super().main(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with failures(), cautions():
            return super().invoke(ctx)


@click.group(
    cls=_Program,
    commands=[cache, contract, convert, devices, doctor, info, optimize, perf, profile, run, tune],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 the evaluation failed, 2 wrong usage, 3 the model cannot be used, "
    "4 an input cannot be used, 5 the output cannot be written, 6 the device cannot be used.",
)
@click.version_option(__version__, prog_name="winml-py")
def main() -> None:
    """Run ONNX models the Windows ML way: load, bind, evaluate."""
