"""Pictures as a notebook shows them: PNG, not larger than a screen needs."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST = 640
"""Pixels of the longer side."""


def png(image: Image, longest: int = LONGEST) -> bytes:
    """A picture as a PNG file, shrunk in place where a side is longer; never enlarged."""
    image.thumbnail((longest, longest))
    memory = io.BytesIO()
    image.save(memory, "PNG")
    return memory.getvalue()


def figure(image: Image, words: str, longest: int = LONGEST) -> str:
    """A picture in HTML, with words below it."""
    data = base64.b64encode(png(image, longest)).decode()
    shown = f'<img src="data:image/png;base64,{data}" alt="a picture" style="max-width:100%">'
    return f'<div style="display:inline-block;margin-right:1em">{shown}<br>{escape(words)}</div>'
