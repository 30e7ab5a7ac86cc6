"""HTML for notebooks: a table of the outputs of an evaluation, with small pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ...errors import WinMLError
from ..base.arrays import Array
from .pictures import make_pictures_html
from .ranking import find_best_classes
from .resolve import as_picture
from .tensor import Tensor

PREVIEW = 160
"""The longer side of a picture, in pixels."""

_CELL = 'style="text-align:left;vertical-align:top;padding:.2em 1em .2em 0"'


def make_outputs_html(outputs: Mapping[str, object], labels: Sequence[str] = (), *, is_of_picture: bool = False) -> str:
    """The outputs of an evaluation, with the model's labels. Plain outputs of a picture get a hint at `vision`."""
    rows = [(escape(name), _make_value_html(value, labels)) for name, value in outputs.items()]
    is_plain = all(cell == _make_text_html(value) for value, (_, cell) in zip(outputs.values(), rows, strict=True))
    seen = "winml_py.vision: detections(result) of a detector, masks(result) of a segmenter."
    more = f"<p>{seen}</p>" if is_of_picture and is_plain else ""
    return f"<div>LearningModelEvaluationResult{make_table(('output', 'value'), rows)}{more}</div>"


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML."""
    head = "".join(f"<th {_CELL}>{column}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _make_value_html(value: object, labels: Sequence[str] = ()) -> str:
    try:
        picture = as_picture(value)
        if picture is not None:
            return make_pictures_html(picture, PREVIEW)
        scores = _make_scores_table(value.to_numpy(), labels) if isinstance(value, Tensor) else ""
        return _make_text_html(value) + scores
    except WinMLError:  # a closed or unreadable value is shown as text
        return _make_text_html(value)


def _make_text_html(value: object) -> str:
    text = repr(value).strip("<>")
    return escape(text if len(text) <= 200 else text[:199] + "…")


def _make_scores_table(array: Array, labels: Sequence[str]) -> str:
    """The best five of a row of scores; nothing for another tensor."""
    best = find_best_classes(array, 5, labels)
    if not best:
        return ""
    rows = [(str(item.index), f"{item.score:.4f}", escape(item.label)) for item in best]
    if any(item.label for item in best):
        return make_table(("index", "score", "label"), rows)
    return make_table(("index", "score"), [row[:2] for row in rows])
