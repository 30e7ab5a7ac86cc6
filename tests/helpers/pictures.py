"""Files of pictures and of videos, and frames."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from winml_py import BitmapPixelFormat, ImageKernel, SoftwareBitmap, VideoFrame

PILLOW_FILTERS = {
    ImageKernel.ANTIALIASED_LINEAR: Image.Resampling.BILINEAR,
    ImageKernel.ANTIALIASED_CUBIC: Image.Resampling.BICUBIC,
    ImageKernel.ANTIALIASED_LANCZOS: Image.Resampling.LANCZOS,
    ImageKernel.ANTIALIASED_BOX: Image.Resampling.BOX,
    ImageKernel.ANTIALIASED_HAMMING: Image.Resampling.HAMMING,
}
"""Pillow's filters behind the antialiased kernels."""


def encode(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Encodes a picture as a file of a kind, with Pillow's options."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def make_frame(pixels: np.ndarray[Any, Any], pixel_format: BitmapPixelFormat = BitmapPixelFormat.BGR8) -> VideoFrame:
    """Makes a frame of pixels."""
    return VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_array(pixels, pixel_format))


def write_video(path: Path, levels: Iterable[int], codec: str = "MJPG") -> Path:
    """Writes a video of 25 frames a second, 64 x 48 pixels, each frame of one gray level."""
    import cv2

    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), 25, (64, 48))
    for level in levels:
        writer.write(np.full((48, 64, 3), level, np.uint8))
    writer.release()
    return path
