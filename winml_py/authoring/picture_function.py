"""The function to learn: how it is called with a picture, and how the tensor is found in its result."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import PIL.Image
from PIL.Image import Image

from ..core.base.arrays import Array, Pixels
from ..enums import TensorLayout
from ..errors import InvalidArgumentError, NotSupportedError

PictureKind = Literal["pillow", "path", "rgb", "bgr", "gray"]
"""A function's argument: a Pillow image, the path to a file, or an array in that channel order."""

_CALLS: tuple[Callable[[Callable[..., Any], Any], Any], ...] = (
    lambda function, picture: function(picture),
    lambda function, picture: function(image=picture),
    lambda function, picture: function(images=picture),
)
"""The ways such functions are called; Albumentations only takes keyword arguments."""

_NAMES = ("pixel_values", "image", "images", "input", "inputs", "data", "x")
"""The names of the tensor, in dicts that also contain other values."""


class PictureTensor(NamedTuple):
    """A copy of a function's tensor, as float32 of channels x height x width, and the tensor's own layout."""

    numbers: Array
    layout: TensorLayout


class PictureFunction:
    """A function that turns a picture into a tensor. If `pictures` is None, its argument type is found by trying."""

    def __init__(self, function: Callable[..., Any], pictures: PictureKind | None) -> None:
        if not callable(function):
            raise InvalidArgumentError(f"Expected a function, got {function!r}.")
        if pictures is not None and pictures not in get_args(PictureKind):
            raise InvalidArgumentError(
                f"Invalid value for pictures: {pictures!r}.",
                hint=f"Pass {', '.join(map(repr, get_args(PictureKind)))}, or None.",
            )
        self._function, self._call = function, _CALLS[0]
        self._channels_last = False
        self.calls = 0
        self.pictures: PictureKind = self._find_kind(pictures)

    @property
    def name(self) -> str:
        """The function's full name."""
        definition = self._function if hasattr(self._function, "__qualname__") else type(self._function)
        return f"{definition.__module__}.{definition.__qualname__}"

    def _find_kind(self, stated: PictureKind | None) -> PictureKind:
        """Calls the function with a picture, in each way, until it returns something."""
        image, problems = PIL.Image.fromarray(np.full((60, 80, 3), 128, np.uint8)), []
        kinds: tuple[PictureKind, ...] = (stated,) if stated else ("pillow", "path")
        for kind in kinds:
            for call in _CALLS:
                self._call = call
                try:
                    self._call_with(image, kind)
                except Exception as error:  # foreign code may raise anything
                    problems.append(f"{type(error).__name__}: {error}")
                else:
                    return kind
        raise InvalidArgumentError(
            f"{self.name} fails for an 80x60 picture ({' or '.join(kinds)}): {problems[0][:300].rstrip('.')}.",
            hint="Specify its argument. For an array, pass pictures='rgb' or 'bgr' (--pictures on the command line), "
            "because the result does not reveal the channel order. Otherwise, pass 'pillow' or 'path'.",
        )

    def _call_with(self, image: Image, kind: PictureKind, jpeg: bytes = b"") -> Any:
        self.calls += 1
        match kind:
            case "pillow":
                return self._call(self._function, image)
            case "rgb":
                return self._call(self._function, np.array(image))
            case "bgr":
                return self._call(self._function, np.array(image)[..., ::-1].copy())
            case "gray":
                return self._call(self._function, np.array(image.convert("L")))
        # Windows cannot remove an open file, and the function may hold it: Pillow reads an image lazily.
        with tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "picture.jpg" if jpeg else "picture.png")
            with open(path, "wb") as file:
                if jpeg:
                    file.write(jpeg)
                else:
                    image.save(file, "png", compress_level=0)
            return self._call(self._function, path)

    @property
    def takes_files(self) -> bool:
        """Whether it can tell a JPEG from other pictures, and read a part of it alone."""
        return self.pictures in ("pillow", "path")

    def __call__(self, pixels: Pixels, jpeg: bytes = b"") -> PictureTensor:
        """The function's result for a picture.

        Args:
            pixels: the picture: height x width x RGB.
            jpeg: the JPEG file that the picture is in, for a function that takes files.

        Raises:
            InvalidArgumentError: the function raises, or returns no tensor of a picture.
            NotSupportedError: it returns more than one picture.
        """
        try:
            image = PIL.Image.open(io.BytesIO(jpeg)) if jpeg else PIL.Image.fromarray(pixels)
            result = self._call_with(image, self.pictures, jpeg)
        except Exception as error:  # foreign code may raise anything
            height, width = pixels.shape[:2]
            raise InvalidArgumentError(
                f"{self.name} fails for a {width}x{height} picture: {type(error).__name__}: {str(error)[:300]}"
            ) from error
        array = next(_find_arrays(result), None)
        if array is None:
            raise InvalidArgumentError(
                f"{self.name} returned {type(result).__name__}, which contains no picture tensor.",
                hint="Return an array of two to five dimensions, alone or in a dict, tuple or list.",
            )
        return self._as_tensor(array)

    def _as_tensor(self, array: Array) -> PictureTensor:
        shape = array.shape
        while array.ndim > 3 and array.shape[0] == 1:
            array = array[0]
        if array.ndim > 3:
            raise NotSupportedError(
                f"{self.name} was passed one picture, but returned a tensor of shape {'x'.join(map(str, shape))}.",
                hint="A contract converts one picture to one tensor. To bind tiles of a picture, use BitmapBounds.",
            )
        if array.ndim == 2:
            return PictureTensor(array[None].astype(np.float32), TensorLayout.NCHW)
        may_be_first, may_be_last = (array.shape[axis] in (1, 3) for axis in (0, 2))
        if not (may_be_first or may_be_last):
            raise NotSupportedError(
                f"{self.name} returned a tensor of shape {'x'.join(map(str, shape))}, which has neither 1 nor 3 "
                "channels.",
                hint="Return gray, or red, green and blue.",
            )
        if may_be_first and may_be_last:  # for example a picture of three rows
            is_last = self._channels_last
        else:
            is_last = self._channels_last = may_be_last
        layout = TensorLayout.NHWC if is_last else TensorLayout.NCHW
        return PictureTensor((array.transpose(2, 0, 1) if is_last else array).astype(np.float32), layout)


def _find_arrays(value: Any, depth: int = 0) -> Iterator[Array]:
    """Copies of the numeric arrays in a function's result, those with a telling name first."""
    array = _copy_array(value)
    if array is not None:
        if 2 <= array.ndim <= 5 and array.dtype.kind in "fiub":
            yield array
        return
    if depth > 3:
        return
    if isinstance(value, Mapping):
        names = sorted(value, key=lambda name: _NAMES.index(name) if name in _NAMES else len(_NAMES))
        for name in names:
            yield from _find_arrays(value[name], depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for element in value:
            yield from _find_arrays(element, depth + 1)


def _copy_array(value: Any) -> Array | None:
    """A copy of an array, a tensor or an image; None for others."""
    if isinstance(value, (np.ndarray, PIL.Image.Image)):
        return np.array(value)
    for method in ("detach", "cpu"):  # for torch tensors in a graph or on a device
        if callable(getattr(value, method, None)):
            value = getattr(value, method)()
    if callable(getattr(value, "numpy", None)):
        return np.array(value.numpy())
    if hasattr(value, "__dlpack__"):
        return np.array(np.from_dlpack(value))
    return None
