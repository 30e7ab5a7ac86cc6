"""What nobody should bind, and what nearly fits."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from PIL import Image

from winml_py import (
    BitmapBounds,
    BitmapPixelFormat,
    ImageFeatureValue,
    SoftwareBitmap,
    TensorFloat,
    TensorFloat16Bit,
    TensorString,
    VideoFrame,
)


def make_odd_values() -> list[Any]:
    closed_image = Image.new("RGB", (6, 4))
    closed_image.close()
    closed_bitmap = SoftwareBitmap(BitmapPixelFormat.BGRA8, 6, 4)
    closed_bitmap.close()
    closed_tensor = TensorFloat.create([2, 1])
    closed_tensor.close()
    return [
        *(None, 5, 1.5, "x", b"x", [], [[]], [1], [1, [2]], [[1, 2], [3, 4]], (), {}, {1: 2}, {"a": "b"}, {1.5: 2}),
        *(
            object(),
            type,
            np,
            range(3),
            iter([1]),
            slice(3),
            ...,
            [None],
            [2**70, 1],
            [float("nan"), 1.0],
            [1e300, 2.0],
        ),
        *(array.array("f", [1, 2]), memoryview(b"1234"), [b"a", b"b"], [b"", b""], [np.zeros(2, np.float32)]),
        *([np.array(1.0)], [np.zeros((2, 2)), np.zeros((2, 3))], [[np.zeros((2, 2)), np.zeros((2, 3))]], [{1}, {2}]),
        *(
            [np.timedelta64(1, "s")],
            [np.float64(1e300)],
            [memoryview(b"12345678")[::2]],
            [range(2), range(3)],
            [10**400],
        ),
        *(np.float32(1), np.bool_(1), np.zeros(0), np.zeros((2, 1), object), np.array(["a", 1], object)),
        *(np.zeros((2, 1), "M8[s]"), np.zeros((2, 1), [("a", "f4")]), np.zeros((2, 1), ">f4")),
        *(np.zeros(shape, np.uint8) for shape in ((0, 0, 3), (4, 6), (4, 6, 1), (4, 6, 3), (1, 1, 1, 1, 1))),
        *(
            closed_image,
            Image.new("F", (6, 4)),
            Image.new("I", (6, 4)),
            Image.new("RGB", (0, 4)),
            Image.new("L", (9, 9)),
        ),
        *(closed_bitmap, VideoFrame.create_with_software_bitmap(closed_bitmap)),
        *(ImageFeatureValue.from_software_bitmap(closed_bitmap), closed_tensor, [closed_tensor], [closed_bitmap]),
        *(TensorString.create([2]), TensorString.create(), TensorFloat.create(), TensorFloat16Bit.create([1, 3, 4, 6])),
    ]


ODD_PROPERTIES: list[Any] = [
    None,
    {},
    {"BitmapPixelFormat": BitmapPixelFormat.RGB8},
    {"BitmapPixelFormat": []},
    {"PixelRange": {}},
    {"BitmapBounds": np.array([0, 0, 2, 2])},
    {"BitmapBounds": [None] * 4},
    {"BitmapBounds": BitmapBounds(0, 0, 1, 1)},
    [("BitmapBounds", 1)],
    5,
]
