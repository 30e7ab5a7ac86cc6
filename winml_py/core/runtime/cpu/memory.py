"""What a model takes in other engines than ONNX Runtime, and whether that is there."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.free_memory import free_memory
from ..explanation import in_megabytes
from ..providers.catalogue import provider_of
from ..providers.provider import Target, short
from ..request import CompileRequest


def memory_of(request: CompileRequest, target: Target) -> int:
    """About how many bytes an engine takes for a model at most; 0 where that is not known.

    Float16 counts twice: such weights are held in float32, too.
    """
    factor = provider_of(target.provider).memory_factors[request.has_fixed_shapes]
    return int(factor * request.total_size * (2 if request.has_float16 else 1))


def memory_of_reference(request: CompileRequest, target: Target) -> int:
    """The same of an engine that stays open beside another, to check it; ONNX Runtime's own takes the weights once."""
    return memory_of(request, target) or request.total_size * (2 if request.has_float16 else 1)


def shortage(request: CompileRequest, targets: Sequence[Target]) -> str:
    """Why there is no memory to compare such engines with ONNX Runtime; or "".

    All are compiled before the fastest is known, and ONNX Runtime stays open until the last check.
    """
    needed = sum(memory_of(request, target) for target in targets)
    needed += memory_of_reference(request, Target()) if needed else 0
    free = free_memory() if needed else 0
    if needed <= free:
        return ""
    names = ", ".join(dict.fromkeys(short(target.provider) for target in targets))
    return f"{names} would take up to about {in_megabytes(needed)}, and {in_megabytes(free)} of memory are free"
