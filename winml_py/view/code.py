"""The Python program for the page's state: it gives the same answer in a fresh interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._inputs.model import DEVICE_KINDS
from ..core.base.agreement import as_numpy
from ..core.imaging.contract import ImageContract
from .switches import python_of
from .values import MAX_WRITTEN


class PictureFile(NamedTuple):
    """The file of a bound picture, and its contract.

    `path` is only its name if it was dropped on the page, rather than a file on this machine (`is_here`).
    """

    path: str
    is_here: bool
    contract: ImageContract | None


def program(
    model: str,
    values: Mapping[str, PictureFile | Any],
    kind: str,
    *,
    is_here: bool = True,
    device: str = "cpu",
    labels: Sequence[str] = (),
    output: str = "",
) -> str:
    """The program as text.

    Args:
        model: the path of the model, or its name if it was dropped on the page.
        values: the value for each input.
        kind: what to print: see `AnswerFacts`.
        is_here: whether the model is a file on this machine.
        device: its name.
        labels: the class names, if the model has none.
        output: the output with the classes.
    """
    names = {"LearningModel", "LearningModelBinding", "LearningModelSession"}
    lines = [f"model = LearningModel.load({model!r}){_comment(is_here)}"]
    arguments = ""
    if device == "cpu":
        pass
    elif device in DEVICE_KINDS:
        names |= {"LearningModelDevice", "LearningModelDeviceKind"}
        arguments = f", LearningModelDevice(LearningModelDeviceKind.{DEVICE_KINDS[device].name})"
    else:
        names |= {"LearningModelDevice"}
        arguments = f", LearningModelDevice.find({device!r})"
    lines += [f"session = LearningModelSession(model{arguments})", "binding = LearningModelBinding(session)"]
    contract, needs_numpy = None, False
    for name, value in values.items():
        if isinstance(value, PictureFile):
            names.add("ImageFeatureValue")
            if value.contract is not None and value.contract != contract:
                contract = value.contract
                text, needed = python_of(contract)
                names |= needed
                lines.append(f"contract = {text}")
            how = ', {"ImageContract": contract}' if value.contract is not None else ""
            lines.append(f"picture = ImageFeatureValue.load({value.path!r}){_comment(value.is_here)}")
            lines.append(f"binding.bind({name!r}, picture{how})")
        else:
            text, uses_numpy = _spell(name, value)
            needs_numpy |= uses_numpy
            lines.append(f"binding.bind({name!r}, {text})")
    lines.append("result = session.evaluate(binding)")
    lines += _printing(kind, labels, output)
    names |= {"vision"} if kind in ("objects", "regions") else set()
    head = ["import numpy as np", ""] if needs_numpy else []
    imported = f"from winml_py import {', '.join(sorted(names))}"
    if len(imported) > 100:
        imported = "from winml_py import (\n" + "".join(f"    {name},\n" for name in sorted(names)) + ")"
    return "\n".join([*head, imported, "", *lines, ""])


def _comment(is_here: bool) -> str:
    return "" if is_here else "  # where this file is"


def _printing(kind: str, labels: Sequence[str], output: str) -> list[str]:
    given = f"labels={list(labels)!r}" if labels else ""
    if kind == "objects":
        return [
            f"for one in vision.detections(result{', ' * bool(given)}{given}):",
            "    print(one.label or one.index, one.score, one.box)",
        ]
    if kind == "regions":
        return [f"print(vision.masks(result{', ' * bool(given)}{given}).shares)"]
    if kind == "classes":
        more = f", {given}" if given else ""
        return [f"for one in result.top_k(5{more}, output={output!r}):", "    print(one.label or one.index, one.score)"]
    return ["for name, value in result.outputs.items():", "    print(name, value)"]


def _spell(name: str, value: Any) -> tuple[str, bool]:
    """A value as an expression, and whether it needs numpy."""
    plain = as_numpy(value)
    if not isinstance(plain, np.ndarray):
        return repr(plain), False
    if plain.size > MAX_WRITTEN:
        return f"np.load({name + '.npy'!r})", True
    kind = "object" if plain.dtype == object else f"np.{plain.dtype.name}"
    text = repr(plain.tolist())
    if plain.dtype.kind == "f":
        text = text.replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, {kind})", True
