"""The Python program for the page's state: it gives the same answer in a fresh interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.base.agreement import as_numpy
from ..core.base.messages import Facts
from ..core.imaging.contract import ImageContract

_MAX_WRITTEN = 1024
"""The most numbers of an array that are written into a program."""


class File(NamedTuple):
    """A file for a program: of a model, or of a picture with its contract.

    If it was dropped on the page, it is not a file on this machine (`is_here`), and `path` is its name.
    """

    path: str
    is_here: bool
    contract: ImageContract | None = None

    def write_expression(self, kind: str) -> str:
        """The expression that loads it as one of our classes."""
        comment = "" if self.is_here else "  # where this file is"
        return f"{kind}.load({self.path!r}){comment}"


def write_program(
    model: File, values: Mapping[str, File | Any], answer: Facts, device: str, labels: Sequence[str]
) -> str:
    """The program as text.

    Args:
        model: its file.
        values: the value for each input.
        answer: what is shown, and so is printed: see `Answer`.
        device: its name; "cpu" for the default.
        labels: the class names, if the model has none.
    """
    on_device = "" if device == "cpu" else f", winml_py.LearningModelDevice.find({device!r})"
    lines = [
        "import winml_py",
        "",
        f"model = {model.write_expression('winml_py.LearningModel')}",
        f"session = winml_py.LearningModelSession(model{on_device})",
        "binding = winml_py.LearningModelBinding(session)",
    ]
    for name, value in values.items():
        if not isinstance(value, File):
            lines.append(f"binding.bind({name!r}, {_write_value(name, value)})")
            continue
        properties = ""
        if value.contract is not None:
            words = "".join(f"    {key!r}: {word!r},\n" for key, word in value.contract.to_metadata().items())
            lines.append(f"contract = winml_py.ImageContract.from_metadata({{\n{words}}})")
            properties = ', {"ImageContract": contract}'
        lines.append(f"picture = {value.write_expression('winml_py.ImageFeatureValue')}")
        lines.append(f"binding.bind({name!r}, picture{properties})")
    if any(not isinstance(value, File) for value in values.values()):
        lines.insert(0, "import numpy as np")
    return "\n".join([*lines, "result = session.evaluate(binding)", *_write_printing(answer, labels), ""])


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
