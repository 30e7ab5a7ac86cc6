"""Arguments and options that several commands take: a word means the same in all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, NoReturn

import click

from ..core.base.atomic_files import is_same_file
from ..core.base.file_kinds import PICTURE, kind_of_file, missing_file_hint
from ..core.contracts.files import read_contract
from ..core.imaging.contract import ImageContract
from ..core.streams.sources import PICTURES, files_in, files_of
from ..enums import Precision
from ..errors import InvalidArgumentError
from ..inputs.examples import StatedSizes
from ..inputs.functions import file_of_function

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

PRESETS: dict[str, Callable[[], ImageContract]] = {
    "imagenet": ImageContract.imagenet,
    "inception": ImageContract.inception,
    "yolo": ImageContract.yolo,
    "clip": ImageContract.clip,
}
"""The contracts that `ImageContract` has names for."""


_FORCE = "winml_py.force"

_IN_FOLDERS = {"argument": (*PICTURES, ".onnx"), "option": (*PICTURES, "config.json")}
"""The endings of the files that commands read in a folder, by what names the folder."""


class ExistingFile(click.Path):
    """The path of a file that a command reads. The error names the file first."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def fail(self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> NoReturn:
        """Refuses a file that is not there, or is a folder."""
        path = message.partition("'")[2].rpartition("'")[0]
        what = "There is no such file" if "exist" in message else "This is a folder, and a file is expected"
        option = f" for {param.opts[0]}" if param else ""
        hint = f" {missing_file_hint(path)}" if "exist" in message else ""
        raise click.UsageError(f"{path or message}: {what}{option}.{hint}", ctx)


def _in_order(ctx: click.Context, _: click.Parameter, inputs: tuple[str, ...]) -> tuple[str, ...]:
    if "model" in ctx.params:
        _require_model_first(str(ctx.info_name), ctx.params["model"], inputs)
    return inputs


def _require_model_first(command: str, model: str, others: Sequence[str]) -> None:
    """Refuses a picture in the place of the model, with the model behind it."""
    after = next((word for word in others if word.lower().endswith(".onnx")), None)
    if after is not None and kind_of_file(model) is PICTURE:
        raise click.UsageError(
            f"{model}: This is a picture, and the model comes first. Write: winml-py {command} {after} {model}"
        )


model_argument = click.argument("model", type=click.Path())
inputs_argument = click.argument("inputs", nargs=-1, metavar="[INPUT]...", callback=_in_order)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
force_option = click.option(
    "--force",
    is_flag=True,
    expose_value=False,
    help="Let the output take the place of an input.",
    callback=lambda ctx, _, is_meant: ctx.meta.update({_FORCE: is_meant}),
)
labels_option = click.option(
    "--labels", type=ExistingFile(), metavar="FILE", help="The classes: one a line, or a config.json."
)
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


def models_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """`MODEL... [INPUT]...`; the command is given `models` and `inputs`.

    The first word is a model, or a folder of them, and so are the words after it that end in `.onnx`.
    """

    @click.argument("models", nargs=-1, metavar="MODEL... [INPUT]...")
    @wraps(command)
    def with_models(*args: object, models: tuple[str, ...], **options: object) -> Any:
        if models:
            _require_model_first(str(click.get_current_context().info_name), models[0], models[1:])
        is_input = (index for index, word in enumerate(models) if index and not word.lower().endswith(".onnx"))
        first = next(is_input, len(models))
        return command(*args, models=models[:first], inputs=models[first:], **options)

    return with_models


class OutputOption(click.Option):
    """The path of what a command writes. `--check` writes nothing, and does without a required one."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """The path."""
        try:
            return super().process_value(ctx, value)
        except click.MissingParameter:
            if ctx.params.get("check"):
                return ""
            raise


def output_option(
    words: str, option: str = "--output", field: str = "output", metavar: str = "PATH", **settings: Any
) -> Decorator:
    """An option for what the command writes, which must not be a file that its line names (`require_unnamed`)."""
    add = click.option(option, field, type=click.Path(), cls=OutputOption, metavar=metavar, help=words, **settings)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_output(*args: object, **options: Any) -> Any:
            if path := options[field]:
                require_unnamed(path, field)
            return command(*args, **options)

        return add(with_output)

    return decorate


def require_unnamed(path: str, own: str = "") -> None:
    """Refuses to write over a file that the command line names, by whatever path or link, unless it says --force.

    Every parameter counts, whatever it is for: a word of the line that is the path of this file names it. Of other
    outputs, it is enough that the path is the same: neither may be there yet.

    Args:
        path: where the command is about to write.
        own: the name of the parameter that says so; "" where the command has found the path by itself.

    Raises:
        click.UsageError: the line names the file.
    """
    ctx = click.get_current_context()
    if ctx.meta.get(_FORCE):
        return
    for parameter in ctx.command.params:
        value = ctx.params.get(str(parameter.name))
        if isinstance(parameter, OutputOption):
            is_named = own not in ("", parameter.name) and value and os.path.realpath(path) == os.path.realpath(value)
        else:
            is_named = os.path.isfile(path) and any(
                is_same_file(path, named) for named in _paths_in(value, _IN_FOLDERS[parameter.param_type_name])
            )
        if is_named:
            who = f"{parameter.opts[0]} names this file" if isinstance(parameter, click.Option) else "This is an input"
            hint = ", or add --force to replace it" if any("--force" in one.opts for one in ctx.command.params) else ""
            raise click.UsageError(f"{path}: {who}, and the output would replace it. Name another{hint}.")


def _paths_in(value: object, endings: tuple[str, ...]) -> Iterator[str]:
    """The files that the value of a parameter may name: FILE, NAME=FILE, FILE.py:name, those of a folder or pattern."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _paths_in(each, endings)
    elif isinstance(value, str):
        for word in (value, value.partition("=")[2]):
            yield word
            yield file_of_function(word)
            with suppress(InvalidArgumentError, OSError):  # a folder without such files, or one that cannot be read
                yield from files_in(word, "file", endings) if os.path.isdir(word) else files_of(word) or ()


def written_model(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--output PATH`, required, and `--force`, of a command that writes a model made of others."""
    return output_option("The model to write.", required=True)(force_option(command))


def device_option(several: bool = False) -> Decorator:
    """`--device NAME`; the command is given a `device`, or where there may be several, `devices`."""
    words = "cpu (default), gpu or a name" + ("; repeat." if several else ".")
    name, default = ("devices", ()) if several else ("device", "cpu")
    return click.option("--device", name, multiple=several, default=default, metavar="NAME", help=words)


def engine_option(several: bool = False) -> Decorator:
    """`--engine NAME`; the command is given an `engine`, or where there may be several, `engines`; else none."""
    words = "onnxruntime (default), auto, openvino" + ("; repeat." if several else ".")
    return click.option("--engine", "engines" if several else "engine", multiple=several, metavar="NAME", help=words)


def iterations_option(default: int | None = None) -> Decorator:
    """`--iterations N`, how often to evaluate."""
    words = f"Evaluations after the first.  [{default or 100}]"
    return click.option("-n", "--iterations", type=click.IntRange(1), default=default, metavar="N", help=words)


def require_one_engine(settings: str, engine: object, precision: Precision) -> None:
    """Refuses an engine or a precision beside a file of settings, which names them.

    Raises:
        click.UsageError: both came.
    """
    if settings and (engine or precision is not Precision.AUTO):
        raise click.UsageError("--settings names engine and precision; leave --engine and --precision out.")


def pairs_option(option: str, field: str, **settings: Any) -> Decorator:
    """An option NAME=VALUE that may come several times; the command is given pairs."""

    def pairs(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        for text in texts:
            if not text.partition("=")[1]:
                raise click.BadParameter(f"{text}: write {parameter.metavar}.")
        return tuple((text.partition("=")[0], text.partition("=")[2]) for text in texts)

    return click.option(option, field, multiple=True, callback=pairs, **settings)


def preset_option(callback: Callable[..., Any] | None = None) -> Decorator:
    """`--preset NAME`, a contract that has a name."""
    choice, words = click.Choice(list(PRESETS)), f"{', '.join(PRESETS)}."
    return click.option("--preset", type=choice, metavar="NAME", help=words, callback=callback)


def contract_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--contract FILE` and `--preset NAME`; the command is given a `contract`, or None."""

    @preset_option()
    @click.option(
        "--contract", "file", type=ExistingFile(), metavar="FILE", help="How pictures become the inputs, in JSON."
    )
    @wraps(command)
    def with_contract(*args: object, preset: str | None, file: str | None, **options: object) -> Any:
        if preset and file:
            raise click.UsageError("Give --contract or --preset.")
        contract = PRESETS[preset]() if preset else read_contract(file) if file else None
        return command(*args, contract=contract, **options)

    return with_contract


def _sizes(ctx: click.Context, _: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        height, width = map(int, text.replace("x", ",").split(","))
    except ValueError:
        height = width = 0
    if min(height, width) < 1:
        raise click.UsageError(f"--size {text}: Height and width are two whole numbers: --size 224,224.", ctx)
    return height, width


def _dimensions(ctx: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, _equals, size = text.rpartition("=")
        if not name or not size.isdecimal() or int(size) < 1:
            raise click.UsageError(f"--dim {text}: Write the name of a dimension and its size: --dim batch=4.", ctx)
        found[name] = int(size)
    return found


def size_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--size H,W` and `--dim NAME=N`; the command is given `sizes`, which are stated of what a model leaves free."""

    @click.option("--size", metavar="H,W", callback=_sizes, help="Height and width, where the model has none.")
    @click.option(
        "--dim",
        "dimensions",
        multiple=True,
        metavar="NAME=N",
        callback=_dimensions,
        help="The size of a free dimension.",
    )
    @wraps(command)
    def with_sizes(*args: object, size: tuple[int, int] | None, dimensions: dict[str, int], **options: object) -> Any:
        return command(*args, sizes=StatedSizes(dimensions, size), **options)

    return with_sizes


def tolerance_option(default: float) -> Decorator:
    """How far results may differ."""
    return click.option(
        "--tolerance",
        type=click.FloatRange(0, min_open=True),
        default=default,
        show_default=True,
        metavar="X",
        help="Largest difference, over the largest magnitude of its channel.",
    )
