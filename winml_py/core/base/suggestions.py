"""What somebody may have meant who wrote a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The hint of an error about an unknown name: the known name that is most like it, or all of them.

    Example:
        >>> did_you_mean("batchh", ["batch", "width"])
        "Did you mean 'batch'?"
        >>> did_you_mean("n", ["batch", "width"])
        'Known: batch, width.'
    """
    from difflib import get_close_matches  # here, because only errors need it

    spellings = {spelling.casefold(): spelling for spelling in known}
    near = get_close_matches(str(name).casefold(), spellings, 1)
    if near:
        return f"Did you mean {spellings[near[0]]!r}?"
    return f"Known: {', '.join(spellings.values()) or 'none'}."
