"""The Python program for the page's state: it gives the same answer in a fresh interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.base.agreement import as_numpy
from ..core.base.messages import Facts
from .open_model import Inputs, OpenModel, PictureOnDisk

_MAX_WRITTEN = 1024
"""The most numbers of an array that are written into a program."""


def write_program(model: OpenModel, inputs: Inputs, answer: Facts, labels: Sequence[str]) -> str:
    """The program as text.

    Args:
        model: the model.
        inputs: what it is given.
        answer: what is shown, and so is printed: see `Answer`.
        labels: the class names, if the model has none.
    """
    on_device = "" if model.device == "cpu" else f", winml_py.LearningModelDevice.find({model.device!r})"
    lines = [
        "import winml_py",
        "",
        f"model = {_write_loading('LearningModel', model)}",
        f"session = winml_py.LearningModelSession(model{on_device})",
        "binding = winml_py.LearningModelBinding(session)",
    ]
    for name, value in inputs.values.items():
        if name not in inputs.pictures:
            lines.append(f"binding.bind({name!r}, {_write_value(name, value)})")
            continue
        properties = ""
        if name in inputs.contracts:
            words = "".join(f"    {key!r}: {word!r},\n" for key, word in inputs.contracts[name].to_metadata().items())
            lines.append(f"contract = winml_py.ImageContract.from_metadata({{\n{words}}})")
            properties = ', {"ImageContract": contract}'
        lines.append(f"picture = {_write_loading('ImageFeatureValue', inputs.pictures[name])}")
        lines.append(f"binding.bind({name!r}, picture{properties})")
    if inputs.values.keys() != inputs.pictures.keys():
        lines.insert(0, "import numpy as np")
    return "\n".join([*lines, "result = session.evaluate(binding)", *_write_printing(answer, labels), ""])


def _write_loading(kind: str, file: OpenModel | PictureOnDisk) -> str:
    """The expression that loads a file as one of our classes. What was dropped on the page is not on this machine."""
    if file.is_here:
        return f"winml_py.{kind}.load({file.path!r})"
    return f"winml_py.{kind}.load({file.name!r})  # where this file is"


def _write_printing(answer: Facts, labels: Sequence[str]) -> list[str]:
    """The lines that print the answer."""
    labels_argument = f", labels={list(labels)!r}" if labels else ""
    if "objects" in answer:
        return [
            f"for detection in winml_py.vision.detections(result{labels_argument}):",
            "    print(detection.label or detection.index, detection.score, detection.box)",
        ]
    if "regions" in answer:
        return [f"print(winml_py.vision.masks(result{labels_argument}).shares)"]
    if ranked := [name for name, output in answer["outputs"].items() if "top" in output]:
        return [
            f"for best in result.top_k(5, output={ranked[0]!r}{labels_argument}):",
            "    print(best.label or best.index, best.score)",
        ]
    return ["for name, value in result.outputs.items():", "    print(name, value)"]


def _write_value(name: str, value: Any) -> str:
    """A value as an expression."""
    array = as_numpy(value)
    if not isinstance(array, np.ndarray):
        return repr(array)
    if array.size > _MAX_WRITTEN:
        return f"np.load({name + '.npy'!r})"
    kind = "object" if array.dtype == object else f"np.{array.dtype.name}"
    text = repr(array.tolist())
    if array.dtype.kind == "f":
        text = text.replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, {kind})"
