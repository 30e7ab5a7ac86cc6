"""The outputs of an evaluation as values of numpy and of Python."""

from __future__ import annotations

from typing import Any


def as_numpy(value: Any) -> Any:
    """An output as numpy and Python have it.

    Args:
        value: what stands in the outputs of a result.

    Returns:
        The array of a tensor or a picture, which may share its memory; a list of arrays for a sequence; all else as
        it is.
    """
    if isinstance(value, list):
        return [as_numpy(element) for element in value]
    to_numpy = getattr(value, "to_numpy", None)
    return value if to_numpy is None else to_numpy()
