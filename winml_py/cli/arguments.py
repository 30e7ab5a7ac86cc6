"""Arguments and options that several commands share: a word means the same in all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import click

from .._examples import NOTHING_STATED, StatedSizes
from .._values import CONTRACTS, load_model, make_free_options
from ..core.base.atomic_files import is_same_file
from ..core.base.messages import did_you_mean
from ..core.contracts.files import find_model_files, read_contract
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.session import LearningModelSession
from ..core.session.sources import find_files
from ..enums import Precision
from ..errors import InvalidArgumentError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_FORCE = "winml_py.force"

model_argument = click.argument("model", type=click.Path())
inputs_argument = click.argument("inputs", nargs=-1, metavar="[INPUT]...")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
force_option = click.option(
    "--force",
    is_flag=True,
    expose_value=False,
    help="Allow the output to replace an input.",
    callback=lambda ctx, _, is_meant: ctx.meta.update({_FORCE: is_meant}),
)


_INPUT_FILE = click.Path(exists=True, dir_okay=False)

labels_option = click.option(
    "--labels", type=_INPUT_FILE, metavar="FILE", help="File of class names, one per line, or a config.json."
)
isolated_option = click.option("--isolated", is_flag=True, help="Evaluate in a separate process to survive crashes.")
device_option = click.option("--device", default="cpu", metavar="NAME", help="cpu (default), gpu, or a device name.")


def is_forced() -> bool:
    """Whether the command line has --force."""
    return bool(click.get_current_context().meta.get(_FORCE))


class OutputOption(click.Option):
    """The path to a command's output."""


def output_option(words: str, option: str = "--output", metavar: str = "PATH", **settings: Any) -> Decorator:
    """An option for a command's output, which must not be a file named on the command line (`require_unnamed`)."""
    field = option.strip("-").replace("-", "_")
    add = click.option(option, field, type=click.Path(), cls=OutputOption, metavar=metavar, help=words, **settings)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_output(*args: object, **options: Any) -> Any:
            if path := options[field]:
                require_unnamed(path)
            return command(*args, **options)

        return add(with_output)

    return decorate


def require_unnamed(path: str) -> None:
    """Refuses to overwrite a file that the command line names, by any path or link, unless --force is given.

    Every parameter but the output counts: an argument that is the path to this file names it.

    Raises:
        click.UsageError: the command line names the file.
    """
    ctx = click.get_current_context()
    if is_forced() or not os.path.isfile(path):
        return
    for parameter in ctx.command.params:
        named = () if isinstance(parameter, OutputOption) else _find_named_files(ctx.params.get(str(parameter.name)))
        if any(is_same_file(path, file) for file in named):
            is_option = isinstance(parameter, click.Option)
            reason = f"{parameter.opts[0]} uses this file" if is_option else "This is an input"
            hint = ", or add --force to replace it" if _FORCE in ctx.meta else ""
            raise click.UsageError(f"{path}: {reason}, and the output would overwrite it. Specify another file{hint}.")


def _find_named_files(value: object) -> Iterator[str]:
    """The files that a parameter's value may name: FILE, NAME=FILE, FILE:FUNCTION, or those of a folder or pattern.

    Of a model, these are all the files that it consists of.
    """
    for text in value if isinstance(value, tuple) else (value,):
        if not isinstance(text, str):  # a number, such as a side of --size
            continue
        after_name = text.partition("=")[2]
        before_function = text.rpartition(":")[0]
        for path in (text, after_name, before_function):  # whichever of them is a path
            yield from find_model_files(path)
            with suppress(InvalidArgumentError, OSError):  # a folder or a pattern without pictures
                yield from find_files(path) or ()


def pairs_option(option: str, field: str, **settings: Any) -> Decorator:
    """A repeatable option NAME=VALUE; the command receives a dictionary."""

    def parse_pairs(_: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
        for text in texts:
            if "=" not in text:
                raise click.BadParameter(f"Expected {parameter.metavar}, got {text}.")
        return {name: value for name, _, value in (text.partition("=") for text in texts)}

    return click.option(option, field, multiple=True, callback=parse_pairs, **settings)


def find_contract(text: str) -> ImageContract:
    """The contract with this name, or from this file.

    Raises:
        click.UsageError: there is neither.
        WinMLError: the file states no contract.
    """
    if text in CONTRACTS:
        return CONTRACTS[text]()
    if not os.path.exists(text):
        raise click.UsageError(f"{text}: No file or contract has this name. {did_you_mean(text, CONTRACTS)}")
    return read_contract(text)


def contract_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--contract NAME`; the command receives a `contract`, or None."""

    @click.option("--contract", metavar="NAME", help=f"{', '.join(CONTRACTS)} or a JSON file.")
    @wraps(command)
    def with_contract(*args: object, contract: str | None, **options: object) -> Any:
        return command(*args, contract=find_contract(contract) if contract else None, **options)

    return with_contract


def _read_size(ctx: click.Context, _: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    try:
        height, width = map(int, text.split(","))
    except ValueError:
        height = width = 0
    if min(height, width) < 1:
        raise click.UsageError(f"--size {text}: Expected height and width, as in --size 224,224.", ctx)
    return height, width


def size_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--size H,W` and `--dim NAME=N`; the command receives them as `sizes`, for the sizes that a model leaves free."""

    @click.option("--size", metavar="H,W", callback=_read_size, help="Height and width, if the model leaves them free.")
    @pairs_option("--dim", "dimensions", metavar="NAME=N", help="Set the size of a free dimension. Repeatable.")
    @wraps(command)
    def with_sizes(*args: object, size: tuple[int, int] | None, dimensions: dict[str, str], **options: object) -> Any:
        for name, number in dimensions.items():
            if not number.isdecimal() or len(number) > 10 or int(number) < 1:
                raise click.UsageError(f"--dim {name}={number}: Expected a name and a size, as in --dim batch=4.")
        sizes = StatedSizes({name: int(number) for name, number in dimensions.items()}, size)
        return command(*args, sizes=sizes, **options)

    return with_sizes


@dataclass(frozen=True)
class Setup:
    """Where and how models run, by the options of a command.

    Attributes:
        device: a name that `LearningModelDevice.find` finds.
        engine: as `LearningModelSessionOptions.engine`.
        precision: as `LearningModelSessionOptions.precision`.
        settings: a file that `LearningModelSessionOptions.load` reads. It replaces engine and precision.
        contract: the contract of the inputs that it fits; None for the model's own.
        sizes: stated values for sizes that the model leaves free; sessions fix them.
        isolated: whether the engine gets a separate process, even if the settings say otherwise.
    """

    device: str = "cpu"
    engine: str | None = None
    precision: Precision = Precision.AUTO
    settings: str | None = None
    contract: ImageContract | None = None
    sizes: StatedSizes = NOTHING_STATED
    isolated: bool = False

    def load(self, path: str) -> LearningModel:
        """Loads a model, and attaches the contract. A stated picture size replaces the contract's.

        Raises:
            WinMLError: the model cannot be loaded, the contract fits no input, or the model does not have the size.
        """
        model = load_model(path, self.contract)
        if self.sizes.picture is None:
            return model
        for feature in model.input_features:
            if isinstance(feature, ImageFeatureDescriptor) and feature.contract.size is not None:
                model.contracts[feature.name] = replace(feature.contract, size=None)
        return model

    def make_options(self, model: LearningModel) -> LearningModelSessionOptions:
        """The session's options. A free batch stays free, unless its size is stated.

        Raises:
            InvalidArgumentError: the model has no such dimension, or the file holds no options.
        """
        if self.settings:
            options = LearningModelSessionOptions.load(self.settings)
        else:
            options = make_free_options()
            options.engine, options.precision = self.engine, self.precision
        for name, shape in self.sizes.find_shapes(model.input_features).items():
            options.override_input_shape(name, shape)
        if self.isolated and options.isolation is None:
            options.isolation = "process"
        return options

    def make_session(self, path: str) -> LearningModelSession:
        """A session of the model in a file."""
        model = self.load(path)
        return LearningModelSession(model, LearningModelDevice.find(self.device), self.make_options(model))


def setup_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where and how models run; the command receives a `setup`."""

    @device_option
    @click.option("--engine", metavar="NAME", help="onnxruntime (default) or openvino.")
    @click.option(
        "--precision",
        type=click.Choice(Precision, case_sensitive=False),
        default=Precision.AUTO,
        metavar="KIND",
        help="auto (default), float32, float16 or bfloat16.",
    )
    @click.option("--settings", type=_INPUT_FILE, metavar="FILE", help="Use the options that `winml-py tune` saved.")
    @size_options
    @contract_option
    @wraps(command)
    def with_setup(
        *args: object,
        device: str,
        engine: str | None,
        precision: Precision,
        settings: str | None,
        contract: ImageContract | None,
        sizes: StatedSizes,
        **options: object,
    ) -> Any:
        if settings and (engine or precision is not Precision.AUTO):
            raise click.UsageError("--settings specifies the engine and the precision. Omit --engine and --precision.")
        return command(*args, setup=Setup(device, engine, precision, settings, contract, sizes), **options)

    return with_setup
