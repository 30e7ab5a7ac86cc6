"""What a notebook shows of models, sessions and results: small tables, and small pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ..features.descriptors import FeatureDescriptor
from ..features.pictures import ImageFeatureValue
from ..features.tensor import Tensor
from ..imaging.frame import VideoFrame
from .ranking import is_row, ranked

PREVIEW = 160
"""Pixels of the longer side of a picture."""

_CELL = 'style="text-align:left;vertical-align:top;padding:.2em 1em .2em 0"'


Features = Iterable[FeatureDescriptor]


def model_html(name: str, description: str, inputs: Features, outputs: Features) -> str:
    """A model's name and features."""
    about = f"<b>{escape(name or 'a model')}</b> {escape(description)}"
    return f"<div>{about}{_features(inputs, outputs)}</div>"


def session_html(name: str, device: str, engine: str, inputs: Features, outputs: Features) -> str:
    """A session's model, where it runs and on which engine, and the features."""
    about = f"<b>{escape(name or 'a model')}</b> on {escape(device)}: {escape(engine)}"
    return f"<div>{about}{_features(inputs, outputs)}</div>"


def outputs_html(outputs: Mapping[str, Any]) -> str:
    """The outputs of an evaluation."""
    return f"<div>{_table(('output', ''), [(escape(name), _value(value)) for name, value in outputs.items()])}</div>"


def error_html(error: Exception) -> str:
    """What went wrong."""
    return f"<div>failed: {escape(str(error))}</div>"


def _features(inputs: Features, outputs: Features) -> str:
    rows = [
        (direction, escape(feature.name), escape(feature.expects()), escape(feature.description))
        for direction, features in (("input", inputs), ("output", outputs))
        for feature in features
    ]
    return _table(("", "name", "takes or gives", ""), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th {_CELL}>{column}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _value(value: Any) -> str:
    if isinstance(value, VideoFrame):
        return _value(ImageFeatureValue([value]))
    if isinstance(value, ImageFeatureValue):
        return _picture(value)
    if isinstance(value, Tensor):
        array = value.to_numpy()
        about = f"{array.dtype} of {' x '.join(map(str, array.shape)) or 'one number'}"
        if is_row(array):
            rows = [(str(best.index), f"{best.score:.4f}") for best in ranked(array, 5)]
            return about + _table(("class", "score"), rows)
        return about
    if isinstance(value, list) and value and isinstance(value[0], VideoFrame):
        return " ".join(_value(frame) for frame in value[:8])
    text = repr(value)
    return escape(text if len(text) <= 200 else text[:199] + "…")


def _picture(value: ImageFeatureValue) -> str:
    image = value.to_pil().convert("RGB")
    width, height = image.size
    image.thumbnail((PREVIEW, PREVIEW))
    memory = io.BytesIO()
    image.save(memory, "PNG")
    data = base64.b64encode(memory.getvalue()).decode()
    return f'<img src="data:image/png;base64,{data}" alt="a picture"><br>{width} x {height}'
