"""Windows.Graphics: the number of an adapter."""

from ....device import DisplayAdapterId

__all__ = ["DisplayAdapterId"]
