"""Models behind HTTP: an ASGI application for a server or a framework, and what `winml-py serve` runs.

It needs `pip install 'winml-py[serve]'`.

Example:
    >>> from winml_py import serve
    >>> service = serve.app({"digits": "models/digits.onnx"}, serve.Limits(waiting=64), idle=600)
"""

from __future__ import annotations

from .._http import MAX_REQUEST_BYTES  # noqa: F401 - says what is missing, before starlette is imported
from .service import Limits, app

__all__ = ["Limits", "app"]
