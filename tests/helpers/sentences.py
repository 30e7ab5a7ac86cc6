"""What the errors of the package have in common: sentences, first what is wrong, then what to do."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from winml_py.errors import WinMLError

ROOMS = (
    "winml_py.core.imaging",
    "winml_py.core.features",
    "winml_py.core.runtime.ort",
    "winml_py.core.evaluation",
)
"""Where the rule holds: the errors of the other rooms quote drivers, files and commands."""

RUNTIMES_WORDS = "translate"
"""The function that passes on what the runtime said, in whatever words."""


def require_sentence(text: object) -> None:
    """A text of one sentence or more, each with its capital and its end; a name or a command may come first."""
    assert isinstance(text, str)
    assert text == text.strip()
    first = text.split(" ")[0]
    assert not first.isalpha() or not first.islower() or first in ("camera", "pip") or hasattr(builtins, first), text
    assert not re.match("[A-Z]{2}[A-Z]?[a-z]", text), text
    assert re.search(r"""([.!?)\]'"]|[a-z]')$""", text), text
    assert not re.search(r"\b[A-Z]{2,}( [A-Z]{2,}){2}", text), text


def _is_the_packages(frame: Any, error: WinMLError) -> bool:
    """Whether the package makes the error, and with words of its own."""
    while frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is error:
        frame = frame.f_back
    return bool(frame.f_globals.get("__name__", "").startswith(ROOMS)) and frame.f_code.co_name != RUNTIMES_WORDS


@contextmanager
def required() -> Iterator[None]:
    """Every error that the package makes meanwhile is written in sentences, or the call ends in AssertionError."""
    original = WinMLError.__init__

    def checked(self: WinMLError, message: str, *, hint: str = "", hresult: int | None = None) -> None:
        if _is_the_packages(sys._getframe(1), self):
            require_sentence(message)
            assert isinstance(hint, str)
            if hint:
                require_sentence(hint)
        original(self, message, hint=hint, hresult=hresult)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WinMLError, "__init__", checked)
        yield
