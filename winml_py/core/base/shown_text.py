"""Text of strangers, such as names in a model, as it is shown: characters that command a terminal are spelled out."""

from __future__ import annotations

import re

COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # marks that turn the direction of text; separators of lines
    "\ud800-\udfff]"  # halves of characters, which no terminal can be sent
)
"""The characters that a terminal would obey, or that make text look like another."""


def shown(text: str) -> str:
    r"""The text with those characters as Python spells them.

    Example:
        >>> shown("\x1b[31mred")
        '\\x1b[31mred'
    """
    return COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


def shown_in_json(text: str) -> str:
    """JSON with those characters as JSON spells them: it means the same."""
    return COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
