"""Windows.Media: `VideoFrame`."""

from ....core.imaging.bitmap import VideoFrame as VideoFrame
