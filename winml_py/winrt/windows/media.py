"""Windows.Media: `VideoFrame`."""

from ...imaging.frame import VideoFrame

__all__ = ["VideoFrame"]
