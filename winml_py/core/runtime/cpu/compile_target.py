"""Compiles a model for one of the engines of the CPU."""

from __future__ import annotations

from ..engine import Engine
from ..ort.compile import compile_with_ort
from ..ort.saved_graph import open_or_compile_with_ort
from ..providers.catalogue import provider_of
from ..providers.provider import Target
from ..request import CompileRequest


def open_or_compile_target(request: CompileRequest, target: Target) -> Engine:
    """Opens the saved model of an earlier session, or compiles the model.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if target.device is None:
        return open_or_compile_with_ort(request)
    if not provider_of(target.provider).package:
        return compile_with_ort(request, target)  # plugins save no models that we could open
    from ..openvino.compile import open_or_compile_with_openvino  # the only engine with a package; slow to import

    return open_or_compile_with_openvino(request, target)


def compile_target(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model in memory.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if not provider_of(target.provider).package:
        return compile_with_ort(request, target)
    from ..openvino.compile import compile_with_openvino  # slow to import

    return compile_with_openvino(request, target)
