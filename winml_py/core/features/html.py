"""HTML for notebooks: small tables and small pictures of models, sessions and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ...errors import WinMLError
from ..base.arrays import Array
from .descriptors import FeatureDescriptor
from .pictures import pictures_html
from .ranking import best_of
from .resolve import as_picture
from .tensor import Tensor

PREVIEW = 160
"""The longer side of a picture, in pixels."""

_CELL = 'style="text-align:left;vertical-align:top;padding:.2em 1em .2em 0"'


Descriptors = Iterable[FeatureDescriptor]


def model_html(name: str, description: str, inputs: Descriptors, outputs: Descriptors) -> str:
    """A model's name and features."""
    about = f"LearningModel <b>{escape(name or '(no name)')}</b> {escape(description)}"
    return f"<div>{about}{_features(inputs, outputs)}</div>"


def session_html(name: str, device: str, engine: str, inputs: Descriptors, outputs: Descriptors) -> str:
    """A session's model, where it runs, and the features."""
    about = f"LearningModelSession <b>{escape(name or '(no name)')}</b> on {escape(device)}: {escape(engine)}"
    return f"<div>{about}{_features(inputs, outputs)}</div>"


def outputs_html(outputs: Mapping[str, object], labels: Sequence[str] = (), *, is_of_picture: bool = False) -> str:
    """The outputs of an evaluation, with the model's labels. Plain outputs of a picture get a hint at `vision`."""
    rows = [(escape(name), _value(value, labels)) for name, value in outputs.items()]
    is_plain = all(cell == _text(value) for value, (_, cell) in zip(outputs.values(), rows, strict=True))
    seen = "winml_py.vision: detections(result) of a detector, masks(result) of a segmenter."
    more = f"<p>{seen}</p>" if is_of_picture and is_plain else ""
    return f"<div>LearningModelEvaluationResult{table(('output', 'value'), rows)}{more}</div>"


def options_html(settings: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    """All settings of a session, with changed ones in bold."""
    rows = [
        (name, escape(repr(value)) if value == defaults[name] else f"<b>{escape(repr(value))}</b>")
        for name, value in settings.items()
    ]
    return f"<div>LearningModelSessionOptions{table(('setting', 'value'), rows)}</div>"


def _features(inputs: Descriptors, outputs: Descriptors) -> str:
    rows = [
        (direction, escape(feature.name), escape(feature.describe()), escape(feature.description))
        for direction, features in (("input", inputs), ("output", outputs))
        for feature in features
    ]
    return table(("", "name", "takes or gives", ""), rows)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    head = "".join(f"<th {_CELL}>{column}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _value(value: object, labels: Sequence[str] = ()) -> str:
    try:
        picture = as_picture(value)
        if picture is not None:
            return pictures_html(picture, PREVIEW)
        return _text(value) + (_scores(value.to_numpy(), labels) if isinstance(value, Tensor) else "")
    except WinMLError:  # a closed or unreadable value is shown as text
        return _text(value)


def _text(value: object) -> str:
    text = repr(value).strip("<>")
    return escape(text if len(text) <= 200 else text[:199] + "…")


def _scores(array: Array, labels: Sequence[str]) -> str:
    """The best five of a row of scores; nothing for another tensor."""
    best = best_of(array, 5, labels)
    if not best:
        return ""
    names = ("index", "score", "label") if any(one.label for one in best) else ("index", "score")
    return table(names, [(str(one.index), f"{one.score:.4f}", escape(one.label))[: len(names)] for one in best])
