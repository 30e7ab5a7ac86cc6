"""`winml-py contract`: store an image contract in a model's metadata, or build the preprocessing in as nodes."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import click

from .._values import find_bytes_format
from ..authoring.build_in import build_in
from ..authoring.learning.learn_contract import LearnedContract, learn_contract
from ..authoring.write_contract import write_contract
from ..core.base.messages import Facts, did_you_mean
from ..core.contracts.labels import labels_of
from ..core.features.descriptors import ImageFeatureDescriptor
from ..core.imaging.contract import METADATA_FIELDS, ImageContract
from ..core.imaging.pixels import INTERLEAVED_FORMATS
from ..core.model.model import LearningModel
from ..errors import InvalidArgumentError
from ..scaling import Scaling
from .arguments import (
    find_contract,
    force_option,
    json_option,
    labels_option,
    model_argument,
    output_option,
    pairs_option,
)
from .failures import prefix_errors
from .style import emit, print_line

_PICTURES = {known.name.removesuffix("8").lower(): known for known in INTERLEAVED_FORMATS}

_FIELDS: dict[str, dict[str, Any]] = {
    name: {str(getattr(value, "name", value)).lower(): value for value in words.values()}
    for name, words in METADATA_FIELDS.values()
}
"""The values of each contract field, by their lower-case names; empty if the values are numbers."""


@click.command()
@model_argument
@output_option("The model to write.", required=True)
@force_option
@click.option("--from", "source", metavar="NAME", help="imagenet, yolo, ... or a Hugging Face or timm config.")
@pairs_option("--set", "fields", metavar="FIELD=VALUE", help="Set pixel_format, mean, kernel, ... Repeatable.")
@click.option("--learn", metavar="FUNCTION", help="Infer the contract from module:name or file.py:name.")
@click.option("--build-in", "is_built_in", is_flag=True, help="Add nodes so that the new model takes bytes.")
@click.option("--pictures", type=click.Choice(list(_PICTURES)), help="Byte order for --build-in and --learn.")
@labels_option
@click.option("--answers", metavar="KIND", help="Add outputs: auto, classes, yolo, detr, ...")
@json_option
def contract(
    model: str,
    output: str,
    source: str | None,
    fields: Mapping[str, str],
    learn: str | None,
    is_built_in: bool,
    pictures: Any,
    labels: str | None,
    answers: str | None,
    as_json: bool,
) -> None:
    """Write an image contract into a model.

    The inputs of the new model become images or, with --build-in, take bytes. --set changes a field of MODEL's
    contract, as in --set mean=127.5. --from uses another contract. --learn runs the code of FUNCTION to infer the
    contract.
    """
    is_stated = bool(source or fields)
    needs_building = bool(labels or answers or (pictures and not learn))
    if learn and is_stated:
        raise click.UsageError("--learn infers the whole contract. Omit --from and --set.")
    if needs_building and not is_built_in:
        raise click.UsageError("--pictures, --labels and --answers require --build-in: metadata cannot store them.")
    if not (is_stated or learn or is_built_in):
        raise click.UsageError("Specify the contract with --from, --set or --learn, or use --build-in.")
    facts: Facts = {"model": model, "output": output, "contract": "the contract of the model"}
    learned: LearnedContract | None = None
    stated: ImageContract | None = None
    if learn:
        learned = _learn(learn, pictures, model)
        stated = learned.contract
        facts["learned"] = {name: value for name, value in vars(learned).items() if name != "contract"}
    elif is_stated:
        stated = _find_stated(model, source, fields)
    if stated:
        facts["contract"] = stated.describe()
    with prefix_errors(model, labels):
        if is_built_in:
            order = _PICTURES[pictures or "rgb"]  # the byte order of Pillow and most programs
            facts["pictures"] = order.name
            names = labels_of(labels) if labels else ()
            built = build_in(model, output, stated, pictures=order, answers=answers, labels=names, force=True)
            new = LearningModel.load(output)
            inputs = {one.name: one.description for one in new.input_features if find_bytes_format(new, one)}
            facts["built_in"] = {"inputs": inputs} | built._asdict()
        elif stated:
            write_contract(model, output, stated, force=True)
    emit(facts, as_json, lambda facts: _print_contract(facts, learned))


def _print_contract(facts: Facts, learned: LearnedContract | None) -> None:
    print_line(f"{facts['output']}: {facts['contract']}{', as nodes' * ('built_in' in facts)}")
    if learned is not None:
        print_line(
            f"Learned from {learned.function} in {learned.calls} calls. On {learned.checked_on} other pictures, the "
            f"tensors differ by {learned.mean_difference:.2f} gray levels on average, "
            f"{learned.largest_difference:.0f} at most."
        )
        for note in learned.notes:
            print_line(f"{note[0].upper()}{note[1:]}.")
    if built := facts.get("built_in"):
        for name, description in built["inputs"].items():
            print_line(f"  {name}: {description}")
        if built["outputs"]:
            print_line(f"  Outputs added for {built['answers']}: {', '.join(built['outputs'].values())}.")


def _find_stated(model: str, source: str | None, fields: Mapping[str, str]) -> ImageContract:
    """The contract from --from or from the model, with the fields of --set."""
    values = {name: _parse_field(name, text) for name, text in fields.items()}
    if source:
        contract = find_contract(source)
    else:
        with prefix_errors(model):
            features = LearningModel.load(model).input_features
        contracts = (image.contract for image in features if isinstance(image, ImageFeatureDescriptor))
        contract = next(contracts, ImageContract())
    if "pixel_format" in values and not values.keys() & {"mean", "std"}:
        # A contract's mean and std go by colour, in any channel order of the model.
        contract = contract.with_pixel_format(values.pop("pixel_format"))
    return replace(contract, **values)


def _parse_field(name: str, text: str) -> Any:
    """The field's value from the text of --set."""
    if name not in _FIELDS:
        raise click.UsageError(f"--set {name}: A contract has no such field. {did_you_mean(name, _FIELDS)}")
    if name == "scaling":
        return Scaling.from_text(text)
    values = _FIELDS[name]
    try:
        if values:
            return values[text.lower()]
        return tuple(map(int if name in ("pad", "size") else float, text.split(",")))
    except (KeyError, ValueError):
        hint = did_you_mean(text.lower(), values) if values else "Separate numbers with commas: 0.485,0.456,0.406."
        raise click.UsageError(f"--set {name}={text}: {hint}") from None


# Learning from a user's function, named on the command line.


def _learn(text: str, pictures: Any, model: str) -> LearnedContract:
    with prefix_errors(model):
        loaded = LearningModel.load(model)
    with redirect_stdout(sys.stderr):  # what foreign code prints spoils no report
        return learn_contract(_import_function(text), pictures=pictures, model=loaded)


def _import_function(text: str) -> Callable[..., Any]:
    """The function with a name: `package.module:name`, `file.py:name`, or `...:Class.method`.

    A class in the name is instantiated without arguments.

    Raises:
        InvalidArgumentError: there is no such module or function, or the module fails to import.
    """
    place, _, path = text.rpartition(":")
    folder, name = os.path.split(place) if place.endswith(".py") else ("", place)
    try:
        sys.path.insert(0, os.path.abspath(folder))  # where a file's neighbours are; or, as for `python -m`, here
        value: Any = importlib.import_module(name.removesuffix(".py"))
        for name in path.split("."):
            value = getattr(value, name)
            value = value() if inspect.isclass(value) else value
    except Exception as error:  # foreign code may raise anything
        raise InvalidArgumentError(
            f"{text} cannot be imported: {type(error).__name__}: {str(error)[:300].rstrip('.')}.",
            hint="Pass package.module:name or file.py:name. For a method, use Class.method as the name.",
        ) from error
    function: Callable[..., Any] = value  # learning refuses what cannot be called
    return function
