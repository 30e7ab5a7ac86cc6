"""Compiling for a target on the CPU: with ONNX Runtime, or with an engine that has a package of its own."""

from __future__ import annotations

from ..engine import Engine
from ..ort import compile as ort
from ..ort import saved_graph
from ..providers.catalogue import provider_of
from ..providers.provider import Target
from ..request import CompileRequest


def compile_cached(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model, or opens what an earlier session left of it on disk.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if target.device is None:
        return saved_graph.compile_cached(request)
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)  # a plugin keeps nothing that we could open
    from ..openvino.compile import compile_cached  # the one engine with a package; importing it takes a while

    return compile_cached(request, target)


def compile_model(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model in memory.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)
    from ..openvino.compile import compile_model  # importing it takes a while

    return compile_model(request, target)
