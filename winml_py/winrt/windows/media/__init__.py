"""Windows.Media: `VideoFrame`."""

from ....core.imaging.frame import VideoFrame as VideoFrame
