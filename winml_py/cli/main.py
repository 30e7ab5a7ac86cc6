"""The program `winml-py`."""

from __future__ import annotations

import click

from .. import __version__
from .cache import cache
from .contract import contract
from .convert import convert
from .devices import devices
from .doctor import doctor
from .info import info
from .optimize import optimize
from .perf import perf
from .profile import profile
from .run import run
from .tune import tune


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 the evaluation failed, 2 wrong usage, 3 the model cannot be used, "
    "4 an input cannot be used, 5 the output cannot be written, 6 the device cannot be used.",
)
@click.version_option(__version__, prog_name="winml-py")
def main() -> None:
    """Run ONNX models the Windows ML way: load, bind, evaluate."""


main.add_command(cache)
main.add_command(contract)
main.add_command(convert)
main.add_command(devices)
main.add_command(doctor)
main.add_command(info)
main.add_command(optimize)
main.add_command(perf)
main.add_command(profile)
main.add_command(run)
main.add_command(tune)
