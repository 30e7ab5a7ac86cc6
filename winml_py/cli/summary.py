"""What `winml-py run` shows of an evaluation's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.features.pictures import ImageFeatureValue
from ..core.features.ranking import fitting, have_order, is_row, ranked
from ..core.features.tensor import Tensor
from ..core.imaging.frame import VideoFrame
from .findings import print_findings
from .style import number, say, show


def summarize(value: Any, top_k: int, labels: Sequence[str]) -> dict[str, Any]:
    """What is shown of an output: the top classes of a row of numbers, or else its shape and range."""
    if isinstance(value, ImageFeatureValue):
        return summarize(value.video_frame, top_k, labels)
    if isinstance(value, VideoFrame):
        bitmap = value.software_bitmap
        return {"kind": "image", "width": bitmap.pixel_width, "height": bitmap.pixel_height}
    if isinstance(value, list):
        return {"kind": "sequence", "value": [summarize(element, top_k, labels) for element in value]}
    if not isinstance(value, Tensor):
        return {"kind": "map", "value": {str(key): item for key, item in value.items()}}
    array = value.to_numpy()
    facts: dict[str, Any] = {"kind": "tensor", "type": array.dtype.name, "shape": list(array.shape)}
    if is_row(array) and have_order(array):
        best = ranked(array, top_k, fitting(labels, array))
        top = [{"index": one.index, "value": one.score} | ({"label": one.label} if one.label else {}) for one in best]
        return facts | {"top": top}
    if array.size <= 16:
        return facts | {"values": array.reshape(-1).tolist()}
    if array.dtype.kind in "fiu":
        return facts | {"min": float(array.min()), "max": float(array.max()), "mean": float(array.mean())}
    return facts


def print_results(facts: dict[str, Any]) -> None:
    """Prints what `run` found, errors to stderr."""
    for result in facts["results"]:
        if "error" in result:
            say(result["error"]["message"], "bold red", is_error=True)
            continue
        several = len({other["model"] for other in facts["results"]}) > 1
        say(f"{result['model']} on {result['input']}" if several else result["input"], "bold")
        outputs = {} if print_findings(result) else result["outputs"]
        for name, output in outputs.items():
            if "top" in output:
                say(f"  {name}")
                rows = [[str(best["index"]), best.get("label", ""), number(best["value"], 4)] for best in output["top"]]
                show(rows, align="rlr", indent=4)
            else:
                say(f"  {name}: {_spell(output)}")
        for path in result.get("written", []):
            say(f"  written to {path}")


def _spell(output: dict[str, Any]) -> str:
    if output["kind"] == "image":
        return f"a picture of {output['width']}x{output['height']}"
    if output["kind"] == "video":
        return f"a video of {output['width']}x{output['height']}, {output['frames']:,} frames"
    if output["kind"] != "tensor":
        return str(output["value"])
    head = f"{output['type']} of {'x'.join(map(str, output['shape'])) or 'one number'}"
    if "values" in output:
        return f"{head}: {output['values']}"
    if "min" in output:
        return f"{head}, {output['min']:.4g} to {output['max']:.4g}, mean {output['mean']:.4g}"
    return head
