"""Compiles a model for one of the engines of the CPU."""

from __future__ import annotations

from ..engine import Engine
from ..ort import compile as ort
from ..ort import saved_graph
from ..providers.catalogue import provider_of
from ..providers.provider import Target
from ..request import CompileRequest


def compile_or_open(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model, or opens the saved model of an earlier session.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if target.device is None:
        return saved_graph.compile_or_open(request)
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)  # plugins save no models that we could open
    from ..openvino.compile import compile_or_open  # the only engine with a package; slow to import

    return compile_or_open(request, target)


def compile_model(request: CompileRequest, target: Target) -> Engine:
    """Compiles a model in memory.

    Raises:
        WinMLError: the engine refuses the model.
    """
    if not provider_of(target.provider).package:
        return ort.compile_model(request, target)
    from ..openvino.compile import compile_model  # slow to import

    return compile_model(request, target)
