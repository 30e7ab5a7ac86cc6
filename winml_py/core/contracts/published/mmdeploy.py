"""MMDeploy: `pipeline.json`, whose transforms its SDK runs. An export has no class names."""

from __future__ import annotations

from ...imaging.contract import ImageContract
from ..config import Config, make_config_error
from .folder import Folder, Parts, format_numbers, require_order

_CORNER = "rounding=half_up,anchor=top_left"
_KERNELS = {"bilinear": "Linear", "bicubic": "Cubic", "area": "Area"}


def _read_contract(config: Config, _: Folder) -> ImageContract:
    words, shortest, square = {"Image.BitmapPixelFormat": "Bgr8", "Image.Kernel": "Linear"}, 0, 0
    steps = config.values["pipeline"]["tasks"][0]["transforms"]
    for step in steps:
        match {"keep_ratio": False} | step:
            case {"type": "Resize", "size": [int(width), int(height)], "keep_ratio": keeps}:
                words["Image.Kernel"] = _KERNELS[step.get("interpolation", "bilinear")]
                if keeps:
                    short, long = sorted((width, height))
                    square = long if short == long else 0
                    words["Image.Scaling"] = f"shortest_side={short},limit={long},{_CORNER}"
                elif height == -1:
                    words["Image.Scaling"], shortest = f"shortest_side={width},crop_rounding=half_up", width
                else:
                    words |= {"Image.Scaling": "stretch", "Image.Size": f"{height},{width}"}
            case {"type": "CenterCrop", "crop_size": int(side)} if side <= shortest:
                words["Image.Size"] = f"{side},{side}"
            case {"type": "Normalize", "mean": mean, "std": std, "to_rgb": to_rgb}:
                words |= {"Image.Mean": format_numbers(mean), "Image.Std": format_numbers(std)}
                words["Image.BitmapPixelFormat"] = "Rgb8" if to_rgb else "Bgr8"
            case {"type": "Pad"} if "Image.Mean" in words:
                raise make_config_error(config.name, "Pad comes after Normalize, and pads between two levels")
            case {"type": "Pad", "pad_to_square": True, "pad_val": {"img": [level, *others]}} if square and set(
                others
            ) <= {level}:
                words |= {"Image.Pad": f"{level:g},{level:g},{level:g}", "Image.Size": f"{square},{square}"}
            case {"type": "LoadImageFromFile"} if step.get("color_type", "color").startswith("color"):
                pass
            case {"type": "ImageToTensor" | "DefaultFormatBundle" | "Collect"}:
                pass
            case _:
                raise make_config_error(config.name, f"no contract is known to match the step {step['type']}")
    require_order(config, [step["type"] for step in steps], ["Resize", "CenterCrop", "Pad", "Normalize"])
    return ImageContract.from_metadata(words)


PARTS: Parts = (("contract", "pipeline.json", "pipeline", _read_contract),)
