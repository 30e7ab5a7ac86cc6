"""Arguments and options that several commands take."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ..contracts.files import read_contract
from ..contracts.labels import labels_of
from ..contracts.presets import PRESETS
from ..enums import Precision
from ..session.file_values import read_array

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _arrays(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, object]:
    arrays: dict[str, object] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text}: write NAME=FILE.npy.")
        arrays[name] = read_array(path)
    return arrays


model_argument = click.argument("model", type=click.Path())
out_argument = click.argument("out", type=click.Path())
inputs_argument = click.argument("inputs", nargs=-1, metavar="[INPUT]...")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
device_option = click.option("--device", default="cpu", show_default=True, metavar="NAME", help="Or gpu, or a name.")
precision_option = click.option(
    "--precision",
    type=click.Choice([precision.name.lower() for precision in Precision]),
    default="auto",
    metavar="KIND",
    help="auto (default), float32 or half.",
    callback=lambda _, __, word: Precision[word.upper()],
)
settings_option = click.option(
    "--settings", type=click.Path(), default="", metavar="FILE", help="What `winml-py tune --output` wrote."
)
arrays_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE.npy",
    help="Values to check with; example inputs by default.",
    callback=_arrays,
)


def pairs_option(option: str, field: str, **settings: Any) -> Decorator:
    """An option NAME=VALUE that may come several times; the command is given pairs."""

    def pairs(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        for text in texts:
            if not text.partition("=")[1]:
                raise click.BadParameter(f"{text}: write {parameter.metavar}.")
        return tuple((text.partition("=")[0], text.partition("=")[2]) for text in texts)

    return click.option(option, field, multiple=True, callback=pairs, **settings)


def contract_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--contract FILE` and `--preset NAME`; the command is given a `contract`, or None."""

    @click.option("--preset", type=click.Choice(list(PRESETS)), metavar="NAME", help=f"{', '.join(PRESETS)}.")
    @click.option(
        "--contract",
        "file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="How pictures become the inputs, in JSON.",
    )
    @wraps(command)
    def with_contract(*args: Any, preset: str | None, file: str | None, **options: Any) -> Any:
        if preset and file:
            raise click.UsageError("Give --contract or --preset.")
        contract = PRESETS[preset]() if preset else read_contract(file) if file else None
        return command(*args, contract=contract, **options)

    return with_contract


def tolerance_option(default: float) -> Decorator:
    """How far results may differ."""
    return click.option(
        "--tolerance",
        type=click.FloatRange(0, min_open=True),
        default=default,
        show_default=True,
        metavar="X",
        help="Largest difference in an output, over its largest magnitude.",
    )


def read_labels(path: str) -> list[str]:
    """The names of classes: the lines of a text file, or what a `config.json` states.

    Raises:
        click.UsageError: it is not UTF-8 text.
    """
    if path.endswith(".json"):
        return list(labels_of(path))
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return [line.strip() for line in file.read().rstrip("\n").split("\n")]
    except UnicodeDecodeError as error:
        raise click.UsageError(f"The labels in {path} are not UTF-8 text.") from error
