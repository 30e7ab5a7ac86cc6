"""The page of the models that end ONNX Runtime's process, for `tests/tools/attack.py`."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from winml_py.core.runtime.ort.known_faults import FIRST, KNOWN_FAULTS, LAST, Fault, Version

HEAD = """# Models that end the process

Some models of a single operator end the process that runs them with ONNX Runtime: a segmentation fault, a division by
zero, or a check of its own that aborts. Below are those that `tests/tools/attack.py` has found. It writes this page:

```sh
python tests/tools/attack.py --raw --results found.jsonl --count 20000 --seed 1 --page docs/crashes.md
```

It makes models of one operator that are odd in one way or another, and runs each in a process that may end. Model N of
a seed is the same wherever onnx and ONNX Runtime have the same operators. Without `--raw` winml-py runs them.

## Refused before the runtime sees them

A session of a model with such a node is refused with `NotSupportedError`, in the versions that have the fault; also
where the node stands in a subgraph, or in a function of the model's own. The message names the node. Change the model;
or set `options.isolation = "process"`, which runs it in a process of its own.

Each has a model in `tests/helpers/fault_models.py`, and `tests/core/runtime/test_faults.py` runs it.

"""

NOT_IN_GRAPH = """
## Refused in an evaluation

Here the shapes of inputs do it that the model does not declare; where it declares them, the runtime refuses it with an
error. An evaluation with such an input is refused with `NotSupportedError`, and so is one with an input whose size the
model leaves free and that does what the table above says. **What is not refused:** values between the nodes of a model
that get such shapes, and inputs on a GPU. For models that you do not trust, set `options.isolation = "process"`.

"""

RUNS = """
## What was run

"hang" is a model that took too long, and was ended. "known fault" is what winml-py refused.

"""


def page(rows: list[dict[str, Any]]) -> str:
    """The page, as Markdown."""
    visible = [fault for fault in KNOWN_FAULTS if fault.is_in_graph]
    hidden = [fault for fault in KNOWN_FAULTS if not fault.is_in_graph]
    return HEAD + _table(visible) + NOT_IN_GRAPH + _table(hidden) + _late(rows) + RUNS + _runs(rows)


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What became of the models, a line for each run, and for each fault that ended processes."""
    for (version, way, seed, only), ends in sorted(_counts(rows).items()):
        told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
        chosen = f" of {only}" if only else ""
        yield f"ONNX Runtime {version}, {way}, seed {seed}: {sum(ends.values())} models{chosen}: {told}"
    deaths = Counter((_operator(row), row["stage"], _signal(row), row["fault"]) for row in rows if row["end"] == "died")
    for (operator, stage, name, fault), count in sorted(deaths.items()):
        yield f"  {operator} at {stage}, {name}: {count}: {fault or 'not known'}"


def _table(faults: list[Fault]) -> str:
    lines = ["| operator | when | how | what the node has | versions |", "| --- | --- | --- | --- | --- |"]
    for fault in faults:
        names = ", ".join(f"`{name}`" for name in fault.operators)
        checked = " (builds for Linux)" if fault.is_checked_build else ""
        lines.append(
            f"| {fault.domain or 'ai.onnx'}: {names} | {fault.stage} | {fault.signal} | {fault.words} "
            f"| {_versions(fault)}{checked} |"
        )
    return "\n".join(lines) + "\n"


def _versions(fault: Fault) -> str:
    first, last = map(_dotted, (max(fault.since, FIRST), fault.until))
    return f"{first} to {last}" if first != last else first


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _late(rows: list[dict[str, Any]]) -> str:
    """What no fault of the table explains."""
    unknown: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row["end"] == "died" and not row["fault"]:
            unknown[row["runtime"]].add(_operator(row))
    if not unknown:
        return ""
    lines = [f"* {version}: {', '.join(sorted(names))}" for version, names in sorted(unknown.items())]
    return "\nIn these versions these operators have other faults, which nothing refuses:\n\n" + "\n".join(lines) + "\n"


def _runs(rows: list[dict[str, Any]]) -> str:
    lines = ["| ONNX Runtime | run by | seed | models | what became of them |", "| --- | --- | --- | --- | --- |"]
    for (version, way, seed, only), ends in sorted(_counts(rows).items()):
        told = ", ".join(f"{count:,} {end}" for end, count in sorted(ends.items()))
        by = {"raw": "ONNX Runtime alone", "isolated": "winml-py, isolated"}.get(way, "winml-py")
        lines.append(f"| {version} | {by} | {seed} | {sum(ends.values()):,} {only} | {told} |")
    tried = f"Tried: {_dotted(FIRST)} to {_dotted(LAST)}. Later versions are taken to have what the last one has.\n"
    return "\n".join(lines) + "\n\n" + tried


def _counts(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int, str], Counter[str]]:
    found: dict[tuple[str, str, int, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        found[row["runtime"], row["way"], row["seed"], row["only"]][row["end"]] += 1
    return found


def _operator(row: dict[str, Any]) -> str:
    return str(row["operator"]).rpartition(":")[0]


def _signal(row: dict[str, Any]) -> str:
    return signal.Signals(row["signal"]).name if row["signal"] > 0 else f"status {-row['signal']}"
