"""Compiling for a target on the CPU: with ONNX Runtime, or with an engine that has a package of its own."""

from __future__ import annotations

from ..engine import Engine
from ..ort import compile as ort
from ..ort.saved_graph import compile_shared
from ..providers.catalogue import provider_of
from ..providers.provider import Target
from ..request import CompileRequest


def compile_kept(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model, or opens what an earlier session left of it on disk.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if target.device is None:
        return compile_shared(request)
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)
    from ..openvino.compile import compile_saved  # the one there is

    return compile_saved(request, target)


def compile_model(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)
    from ..openvino.compile import compile_model  # the one there is

    return compile_model(request, target)
