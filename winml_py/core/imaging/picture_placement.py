"""PicturePlacement: maps coordinates between a model's tensor and the picture that was bound."""

from __future__ import annotations

import numpy as np

from ...errors import InvalidArgumentError
from ..base.arrays import Array
from ..base.winrt_object import Object
from .contract import Placement


class PicturePlacement(Object):
    """Where a bound picture lies in the tensor: maps points, boxes and masks between the two, exactly.

    Coordinates are in pixels from the top left corner, x before y, and continuous: the first pixel reaches from 0 to 1,
    and its middle is at 0.5. Those of the picture are of the whole picture as it is shown (upright, where the file
    states a rotation), regardless of the part that was bound and of the size it was decoded at.

    Example:
        >>> from winml_py import LearningModel, LearningModelBinding, LearningModelSession, ImageFeatureValue
        >>> binding = LearningModelBinding(LearningModelSession(LearningModel.load("models/digits.onnx")))
        >>> binding.bind("image", ImageFeatureValue.load("samples/pictures/seven.png"))
        >>> placement = binding.placements["image"][0]
        >>> placement.points_to_picture([[0, 0]]).shape
        (1, 2)
    """

    __slots__ = ("_placement",)

    def __init__(self, placement: Placement) -> None:
        self._placement = placement

    @property
    def picture_width(self) -> int:
        """The width of the picture, in pixels."""
        return self._placement.picture[1]

    @property
    def picture_height(self) -> int:
        """The height of the picture, in pixels."""
        return self._placement.picture[0]

    @property
    def tensor_width(self) -> int:
        """The width of the tensor, in pixels."""
        return self._placement.tensor[1]

    @property
    def tensor_height(self) -> int:
        """The height of the tensor, in pixels."""
        return self._placement.tensor[0]

    @property
    def _scale_and_shift(self) -> tuple[Array, Array]:
        """Along x and y: picture = tensor * scale + shift."""
        scale, shift = np.array(self._placement.to_picture).T
        return scale, shift

    def points_to_picture(self, points: object) -> Array:
        """Points of the tensor as points of the picture.

        Args:
            points: ... x 2: x and y.

        Returns:
            float64 of the same shape; outside the picture for points in the padding.
        """
        scale, shift = self._scale_and_shift
        return np.asarray(_require_coordinates(points, 2) * scale + shift)

    def points_to_tensor(self, points: object) -> Array:
        """Points of the picture as points of the tensor; outside the tensor where they were cropped."""
        scale, shift = self._scale_and_shift
        return np.asarray((_require_coordinates(points, 2) - shift) / scale)

    def boxes_to_picture(self, boxes: object, *, clip: bool = False) -> Array:
        """Boxes of the tensor as boxes of the picture.

        Args:
            boxes: ... x 4: left, top, right, bottom.
            clip: whether to clip them to the picture's edges.

        Returns:
            float64 of the same shape.
        """
        scale, shift = self._scale_and_shift
        mapped = _require_coordinates(boxes, 4) * np.tile(scale, 2) + np.tile(shift, 2)
        return np.asarray(np.clip(mapped, 0, [self.picture_width, self.picture_height] * 2) if clip else mapped)

    def boxes_to_tensor(self, boxes: object) -> Array:
        """Boxes of the picture as boxes of the tensor."""
        scale, shift = self._scale_and_shift
        return np.asarray((_require_coordinates(boxes, 4) - np.tile(shift, 2)) / np.tile(scale, 2))

    def mask_to_picture(self, mask: object, outside: object = 0) -> Array:
        """A mask over the tensor as a mask over the picture: each pixel gets the number at its middle.

        Args:
            mask: height x width, of the tensor's size or of any other that covers it, such as a quarter of its sides.
            outside: the value where the picture is not in the tensor.

        Returns:
            Picture height x picture width, of the mask's dtype; a new array.
        """
        mask = np.asarray(mask)
        if mask.ndim != 2:
            raise InvalidArgumentError(f"Invalid mask of shape {mask.shape}.", hint="Pass an array of height x width.")
        (across, down), (left, top) = self._scale_and_shift
        x = (np.arange(self.picture_width) + 0.5 - left) / across / self.tensor_width
        y = (np.arange(self.picture_height) + 0.5 - top) / down / self.tensor_height
        columns = np.floor(x * mask.shape[1]).astype(np.int64)
        rows = np.floor(y * mask.shape[0]).astype(np.int64)
        is_column = (columns >= 0) & (columns < mask.shape[1])
        is_row = (rows >= 0) & (rows < mask.shape[0])
        samples = np.full((self.picture_height, self.picture_width), outside, mask.dtype)
        samples[np.ix_(is_row, is_column)] = mask[np.ix_(rows[is_row], columns[is_column])]
        return samples

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PicturePlacement) and self._placement == other._placement

    def __hash__(self) -> int:
        return hash(self._placement)

    def __repr__(self) -> str:
        picture, tensor = f"{self.picture_width}x{self.picture_height}", f"{self.tensor_width}x{self.tensor_height}"
        return f"<PicturePlacement of {picture} in {tensor}>"


def _require_coordinates(values: object, count: int) -> Array:
    numbers = np.asarray(values, np.float64)
    if numbers.ndim == 0 or numbers.shape[-1] != count:
        words = "x, y" if count == 2 else "left, top, right, bottom"
        raise InvalidArgumentError(f"Invalid array of shape {numbers.shape}.", hint=f"Its last axis must hold {words}.")
    return numbers
