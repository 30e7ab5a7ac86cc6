"""What the errors of the package have in common: sentences, first what is wrong, then what to do."""

from __future__ import annotations

import builtins
import re


def require_sentence(text: object) -> None:
    """A text of one sentence or more, each with its capital and its end; a name or a command may come first."""
    assert isinstance(text, str)
    assert text == text.strip()
    first = text.split(" ")[0]
    assert not first.isalpha() or not first.islower() or first in ("camera", "pip") or hasattr(builtins, first), text
    assert re.search(r"""([.!?)\]'"]|[a-z]')$""", text), text
