"""Windows.Media: `VideoFrame`."""

from ...imaging.frame import VideoFrame as VideoFrame
