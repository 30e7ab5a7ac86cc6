"""The rules by which image processors of transformers scale, crop and pad: one function per rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...enums import ImageAnchor, ImageRounding
from ...errors import WinMLError
from ..base.arrays import Size
from ..imaging.scaling import CropSquare, Ends, Fit, Keep, LeastChange, Multiple, Scaling, ShortestSide, Stretch
from .config import make_config_error

Geometry = dict[str, Any]
"""The fields of a contract that determine where a picture goes: size and scaling."""

_CORNER = Ends(anchor=ImageAnchor.TOP_LEFT)


class ProcessorSettings(NamedTuple):
    """What a processor does: the config merged over the defaults of its kind.

    Attributes:
        name: the config's, for errors.
        kind: the processor's, for errors.
        values: by key.
    """

    name: str
    kind: str
    values: Mapping[str, Any]

    def is_on(self, key: str) -> bool:
        """Whether a step is on."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.make_error(f"{key} is {value!r}; expected true or false", value)

    def read_number(self, key: str) -> float:
        """A number above 0."""
        value = self.values.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
            return value
        raise self.make_error(f"{key} is {value!r}; expected a number above 0", value)

    def read_ratio(self, key: str) -> float:
        """A number to divide sizes by, large enough that the result is a size."""
        if (value := self.read_number(key)) < 1e-6:
            raise self.make_error(f"{key} is {value!r}, which cannot divide a size")
        return value

    def read_pixels(self, key: str) -> int:
        """A whole number above 0."""
        return self.require_pixels(key, self.values.get(key))

    def require_pixels(self, key: str, value: object) -> int:
        """A value as a whole number above 0."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 20:
            return value
        raise self.make_error(f"{key} is {value!r}; expected a number of pixels", value)

    def read_edges(self, key: str, single: str) -> dict[str, int]:
        """A size by the names of its edges.

        Args:
            key: the size's.
            single: what a single number is: "square", or the name of an edge.
        """
        value = self.values.get(key)
        if isinstance(value, (list, tuple)) and len(value) == 2:
            value = dict(zip(("height", "width"), value, strict=True))
        elif not isinstance(value, Mapping):
            value = {"height": value, "width": value} if single == "square" else {single: value}
        return {edge: self.require_pixels(f"{key}[{edge!r}]", side) for edge, side in value.items() if side is not None}

    def read_square(self, key: str) -> Size:
        """A size of two fixed sides."""
        return self.require_height_and_width(key, self.read_edges(key, "square"))

    def require_height_and_width(self, key: str, edges: Mapping[str, int]) -> Size:
        """Height and width, if these are what a size states."""
        if edges.keys() != {"height", "width"}:
            raise self.make_error(f"{self.kind} needs a height and a width, but {key} specifies {' and '.join(edges)}")
        return edges["height"], edges["width"]

    def read_single_edge(self, edge: str) -> int:
        """The only edge that the size states, which must be this one; a single number is its length."""
        edges = self.read_edges("size", edge)
        if edges.keys() != {edge}:
            raise self.make_error(f"{self.kind} requires a {edge}, but size specifies {' and '.join(edges)}")
        return edges[edge]

    def make_error(self, what: str, value: object = None) -> WinMLError:
        """The error for a config that no contract matches, and the value that is wrong in it."""
        quoted = isinstance(value, str) and re.fullmatch(r"[\d.]+|true|false", value.lower())
        return make_config_error(self.name, what, hint=f"Write it without quotes: {quoted[0]}." if quoted else "")


def _stretch_to(size: Size) -> Geometry:
    return {"scaling": Stretch(size), "size": size}


def _scale_and_crop(settings: ProcessorSettings, scaling: Scaling, least: Size, is_exact: bool = False) -> Geometry:
    """A scaling, and the crop after it. A larger crop pads with black.

    Args:
        settings: the processor's.
        scaling: before the crop.
        least: the smallest height and width that pictures have after it.
        is_exact: whether all pictures have that size after it.
    """
    if not settings.is_on("do_center_crop"):
        return {"scaling": scaling}
    size = settings.read_square("crop_size")
    missing = [max(0, crop - side) for crop, side in zip(size, least, strict=True)]
    # An odd pixel of padding goes left and above here, but right and below in a contract.
    if any(missing) and (not is_exact or any(pixels % 2 for pixels in missing)):
        raise settings.make_error(f"crop_size is {size[0]}x{size[1]}, larger than the scaled picture")
    return {"scaling": scaling, "size": size}


def _scale_shortest_and_crop(settings: ProcessorSettings, side: int) -> Geometry:
    return _scale_and_crop(settings, ShortestSide(side), (side, side))


def stretch(settings: ProcessorSettings) -> Geometry:
    """Height and width, and a crop if requested."""
    size = settings.read_square("size")
    if not settings.is_on("do_center_crop"):
        return _stretch_to(size)
    return _scale_and_crop(settings, Stretch(size), size, is_exact=True)


def scale_shortest(settings: ProcessorSettings) -> Geometry:
    """The shortest edge, or height and width, and a crop."""
    if "height" in settings.read_edges("size", "shortest_edge"):
        return stretch(settings)
    return _scale_shortest_and_crop(settings, settings.read_single_edge("shortest_edge"))


def levit(settings: ProcessorSettings) -> Geometry:
    """The shortest edge, times 256 / 224, and a crop."""
    if "height" in settings.read_edges("size", "shortest_edge"):
        return stretch(settings)
    return _scale_shortest_and_crop(settings, int(256 / 224 * settings.read_single_edge("shortest_edge")))


def convnext(settings: ProcessorSettings) -> Geometry:
    """Below 384: the shortest edge over `crop_pct`, and a crop; otherwise stretched."""
    side = settings.read_single_edge("shortest_edge")
    if side >= 384:
        return _stretch_to((side, side))
    ratio = 224 / 256 if settings.values["crop_pct"] is None else settings.read_ratio("crop_pct")
    return {"scaling": ShortestSide(int(side / ratio)), "size": (side, side)}


def poolformer(settings: ProcessorSettings) -> Geometry:
    """The shortest edge, or that of a square, over `crop_pct`, and a crop."""
    edges = settings.read_edges("size", "shortest_edge")
    if "height" in edges and edges["height"] != edges.get("width"):
        raise settings.make_error("size is not square, but crop_pct requires a square size")
    side = edges.get("height") or settings.read_single_edge("shortest_edge")
    return _scale_shortest_and_crop(settings, int(side / settings.read_ratio("crop_pct")))


def textnet(settings: ProcessorSettings) -> Geometry:
    """The shortest edge, both edges then up to a multiple, and a crop if requested."""
    side = settings.read_single_edge("shortest_edge")
    multiple = Multiple(settings.read_pixels("size_divisor"), ImageRounding.UP)
    return _scale_and_crop(settings, ShortestSide(side, multiple=multiple), (side, side))


def perceiver(settings: ProcessorSettings) -> Geometry:
    """A square out of the middle, which is then scaled."""
    size = settings.read_square("size")
    if not settings.is_on("do_center_crop"):
        return _stretch_to(size)
    crop = settings.read_square("crop_size")
    if size[0] != size[1] or crop[0] != crop[1] or crop[0] < size[0]:
        raise settings.make_error("size and crop_size are not squares, or crop_size is the smaller one")
    return {"scaling": CropSquare(size[0] / crop[0]), "size": size}


def glpn(settings: ProcessorSettings) -> Geometry:
    """Both edges down to a multiple."""
    return {"scaling": Keep(multiple=Multiple(settings.read_pixels("size_divisor")))}


def sam(settings: ProcessorSettings) -> Geometry:
    """The longest edge, then padding."""
    side = settings.read_single_edge("longest_edge")
    scaling = Fit((side, side), ImageRounding.HALF_UP, ends=_CORNER)
    if not settings.is_on("do_pad"):
        return {"scaling": scaling}
    return {"scaling": scaling, "size": _read_padded_size(settings, (side, side))}


def vilt(settings: ProcessorSettings) -> Geometry:
    """The shortest edge, the longest at most 1333 / 800 of it; both edges then down to a multiple."""
    side = settings.read_single_edge("shortest_edge")
    scaling = ShortestSide(
        side,
        limit=int(1333 / 800 * side),
        rounding=ImageRounding.HALF_UP,
        multiple=Multiple(settings.read_pixels("size_divisor")),
        ends=_CORNER,
    )
    return {"scaling": scaling}


def detr(settings: ProcessorSettings) -> Geometry:
    """The shortest edge with the longest as its limit, a box to fit into, or two fixed edges; then padding."""
    scaling = _read_detr_scaling(settings, settings.read_edges("size", "shortest_edge"))
    if settings.values.get("pad_size") is not None and settings.is_on("do_pad"):
        least = scaling.size if isinstance(scaling, (Fit, Stretch)) else None
        return {"scaling": scaling, "size": _read_padded_size(settings, least or (1, 1))}
    return _stretch_to(scaling.size) if isinstance(scaling, Stretch) and scaling.size else {"scaling": scaling}


def _read_detr_scaling(settings: ProcessorSettings, edges: dict[str, int]) -> Scaling:
    if edges.keys() == {"shortest_edge"} and not isinstance(settings.values["size"], Mapping):
        edges["longest_edge"] = settings.read_pixels("max_size")
    if edges.keys() == {"shortest_edge", "longest_edge"}:
        multiple = Multiple(settings.values.get("multiple", 1))
        return ShortestSide(edges["shortest_edge"], edges["longest_edge"], multiple=multiple, ends=_CORNER)
    if edges.keys() == {"max_height", "max_width"}:
        return Fit((edges["max_height"], edges["max_width"]), ImageRounding.DOWN, ends=_CORNER)
    return Stretch(settings.require_height_and_width("size", edges), _CORNER)


def maskformer(settings: ProcessorSettings, limits_rounded: bool = True) -> Geometry:
    """The shortest edge, the longest as its limit; both edges then up to a multiple, then padding."""
    edges = settings.read_edges("size", "shortest_edge")
    if edges.keys() == {"shortest_edge"} and not isinstance(settings.values["size"], Mapping):
        edges["longest_edge"] = settings.read_pixels("max_size")
    divisor = settings.read_pixels("size_divisor") if settings.values.get("size_divisor") else 1
    pads = settings.values.get("pad_size") is not None
    if "height" in edges:
        height, width = (-(-side // divisor) * divisor for side in settings.require_height_and_width("size", edges))
        if not pads:
            return _stretch_to((height, width))
        size = _read_padded_size(settings, (height, width))
        return {"scaling": Stretch((height, width), _CORNER), "size": size}
    if edges.keys() != {"shortest_edge", "longest_edge"}:
        raise settings.make_error(
            f"{settings.kind} requires a shortest_edge and a longest_edge, but size specifies {' and '.join(edges)}"
        )
    scaling = ShortestSide(
        edges["shortest_edge"],
        edges["longest_edge"],
        limits_rounded,
        multiple=Multiple(divisor, ImageRounding.UP),
        ends=_CORNER,
    )
    return {"scaling": scaling, "size": _read_padded_size(settings, (1, 1))} if pads else {"scaling": scaling}


def fast_maskformer(settings: ProcessorSettings) -> Geometry:
    """The same, by DETR's rounding."""
    return maskformer(settings, limits_rounded=False)


def dpt(settings: ProcessorSettings) -> Geometry:
    """Two fixed edges, or the one that changes least; both then the nearest multiple, then padding."""
    height, width = settings.read_square("size")
    multiple = settings.read_pixels("ensure_multiple_of")
    ends = Ends(pad_multiple=settings.read_pixels("size_divisor") if settings.is_on("do_pad") else 1)
    if settings.is_on("keep_aspect_ratio"):
        if height != width:
            raise settings.make_error("keep_aspect_ratio requires a square size")
        nearest = Multiple(multiple, ImageRounding.HALF_EVEN)
        return {"scaling": LeastChange(height, width, multiple=nearest, ends=ends)}
    height, width = (round(side / multiple) * multiple for side in (height, width))
    return {"scaling": Stretch((height, width), ends), "size": (ends.pad(height), ends.pad(width))}


def _read_padded_size(settings: ProcessorSettings, least: Size) -> Size:
    """The size to pad to."""
    size = settings.read_square("pad_size")
    if size[0] < least[0] or size[1] < least[1]:
        raise settings.make_error(f"pad_size is {size[0]}x{size[1]}, smaller than the scaled picture")
    return size
