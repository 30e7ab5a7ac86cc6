"""The rules for the size that a picture is scaled to, as an `ImageContract` states one: `scaling=Fit()`."""

from .core.imaging.scaling import (
    CropRatio,
    CropSquare,
    CropToAspect,
    Ends,
    Fit,
    FitHeight,
    Keep,
    LeastChange,
    LongestSide,
    Multiple,
    Scaling,
    ShortestSide,
    Stretch,
)

__all__ = [
    "CropRatio",
    "CropSquare",
    "CropToAspect",
    "Ends",
    "Fit",
    "FitHeight",
    "Keep",
    "LeastChange",
    "LongestSide",
    "Multiple",
    "Scaling",
    "ShortestSide",
    "Stretch",
]
