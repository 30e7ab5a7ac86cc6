"""What `winml-py run` shows of an evaluation's outputs."""

from __future__ import annotations

from typing import Any

from ..features.pictures import ImageFeatureValue
from ..features.tensor import Tensor
from ..imaging.frame import VideoFrame
from ..session.ranking import Prediction, is_row, ranked
from .style import console


def summarize(value: Any, top_k: int, labels: list[str]) -> dict[str, Any]:
    """What is shown of an output: the top classes of a row of numbers, else its shape and range."""
    if isinstance(value, ImageFeatureValue):
        bitmap = value.video_frame.software_bitmap
        return {"kind": "image", "width": bitmap.pixel_width, "height": bitmap.pixel_height}
    if isinstance(value, VideoFrame):
        return summarize(ImageFeatureValue([value]), top_k, labels)
    if isinstance(value, list):
        return {"kind": "sequence", "value": [summarize(element, top_k, labels) for element in value]}
    if not isinstance(value, Tensor):
        return {"kind": "map", "value": {str(key): item for key, item in value.items()}}
    array = value.to_numpy()
    facts: dict[str, Any] = {"kind": "tensor", "type": array.dtype.name, "shape": list(array.shape)}
    if is_row(array):
        return facts | {"top": [_prediction(best) for best in ranked(array, top_k, labels)]}
    if array.size <= 16:
        return facts | {"values": array.reshape(-1).tolist()}
    if array.dtype.kind in "fiu":
        return facts | {"min": float(array.min()), "max": float(array.max()), "mean": float(array.mean())}
    return facts


def _prediction(best: Prediction) -> dict[str, Any]:
    facts: dict[str, Any] = {"index": best.index, "value": best.score}
    return facts | ({"label": best.label} if best.label else {})


def print_results(results: list[dict[str, Any]]) -> None:
    """Prints what `run` found, errors to stderr."""
    from rich.markup import escape
    from rich.table import Table

    screen, errors = console(), console(is_error=True)
    for result in results:
        if "error" in result:
            errors.print(f"[bold red]{escape(result['input'])}[/]: {escape(result['error'])}", soft_wrap=True)
            continue
        screen.print(f"[bold]{escape(result['input'])}[/]", soft_wrap=True)
        for name, facts in result["outputs"].items():
            if "top" not in facts:
                screen.print(f"  {escape(name)}: {escape(_spell(facts))}", soft_wrap=True)
                continue
            table = Table(box=None, show_header=False, padding=(0, 2), pad_edge=True)
            table.add_column(justify="right")
            table.add_column()
            table.add_column(justify="right")
            for entry in facts["top"]:
                table.add_row(str(entry["index"]), escape(entry.get("label", "")), f"{entry['value']:.4f}")
            screen.print(f"  {escape(name)}", soft_wrap=True)
            screen.print(table)
        for path in result.get("written", []):
            screen.print(f"  written to {escape(path)}", soft_wrap=True)


def _spell(facts: dict[str, Any]) -> str:
    if facts["kind"] == "image":
        return f"a picture of {facts['width']}x{facts['height']}"
    if facts["kind"] != "tensor":
        return str(facts["value"])
    head = f"{facts['type']} of {'x'.join(map(str, facts['shape'])) or 'one number'}"
    if "values" in facts:
        return f"{head}: {facts['values']}"
    return head + (f", {facts['min']:.4g} to {facts['max']:.4g}, mean {facts['mean']:.4g}" if "min" in facts else "")
