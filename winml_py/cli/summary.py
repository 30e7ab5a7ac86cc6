"""How `winml-py run` prints an evaluation's outputs, and what was found in a picture."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.base.messages import Facts
from ..inputs.answers import NUMBERS_SHOWN
from .style import number, say, show


def print_results(facts: Facts) -> None:
    """Prints what `run` found, errors to stderr."""
    for result in facts["results"]:
        if "error" in result:
            say(result["error"]["message"], "bold red", is_error=True)
            continue
        say(result["input"], "bold")
        outputs = {} if print_findings(result) else result["outputs"]
        for name, output in outputs.items():
            if "top" in output:
                say(f"  {name}")
                rows = [[str(best["index"]), best.get("label", ""), number(best["value"], 4)] for best in output["top"]]
                show(rows, align="rlr", indent=4)
            elif output["kind"] == "sequence" and len(output["value"]) > 1:
                say(f"  {name}")
                for element in output["value"]:
                    say(f"    {_format(element)}")
            else:
                say(f"  {name}: {_format(output)}")
        for path in result.get("written", []):
            say(f"  written to {path}")


def _format(output: Facts) -> str:
    if output["kind"] == "image":
        return f"a picture of {output['width']}x{output['height']}"
    if output["kind"] == "video":
        return f"a video of {output['width']}x{output['height']}, {output['frames']:,} frames"
    if output["kind"] == "sequence":
        return "; ".join(map(_format, output["value"])) or "an empty list"
    if output["kind"] == "map":
        return _format_map(output["value"])
    if "top" in output:  # of an element of a sequence
        return ", ".join(f"{best.get('label') or best['index']} {best['value']:.4g}" for best in output["top"])
    head = f"{output['type']} of {'x'.join(map(str, output['shape']))}"
    if "values" in output:
        numbers = ", ".join(map(_format_element, output["values"])) or "nothing"
        is_row = len(output["values"]) == max(output["shape"], default=1)
        return numbers if is_row else f"{head}: {numbers}"
    if "min" in output:
        return f"{head}, {output['min']:.4g} to {output['max']:.4g}, mean {output['mean']:.4g}"
    return head


def _format_map(items: Mapping[str, object]) -> str:
    """Keys and values; of many numbers, the highest."""
    pairs = list(items.items())
    if len(pairs) > NUMBERS_SHOWN and all(isinstance(value, (int, float)) for value in items.values()):
        pairs = sorted(pairs, key=lambda pair: pair[1], reverse=True)  # type: ignore[arg-type, return-value]
    shown = [f"{key} {_format_element(value)}" for key, value in pairs[:NUMBERS_SHOWN]]
    more = len(pairs) - len(shown)
    return ", ".join(shown) + (f", and {more:,} more" if more else "") if pairs else "an empty map"


def _format_element(element: object) -> str:
    return f"{element:.6g}" if isinstance(element, float) else str(element)


def print_findings(result: Facts) -> bool:
    """Prints what `find` found, and says whether that was anything."""
    if "objects_error" in result:
        say(f"  objects: {result['objects_error']}", is_error=True)
    if "objects" in result:
        if not result["objects"]:
            say("  no objects")
        boxes = [(one, [str(round(edge)) for edge in one["box"]]) for one in result["objects"]]
        rows = [[str(one["index"]), one.get("label", ""), number(one["score"], 3), *box] for one, box in boxes]
        show(rows, ("class", "", "score", "left", "top", "right", "bottom"), "rlrrrrr", indent=4)
    if "regions" in result:
        rows = [[str(one["index"]), one.get("label", ""), f"{one['share']:.1%}"] for one in result["regions"]]
        show(rows, ("class", "", "share"), "rlr", indent=4)
    return "objects" in result or "regions" in result
