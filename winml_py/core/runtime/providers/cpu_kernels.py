"""XNNPACK and oneDNN, in builds of ONNX Runtime that have them: other kernels for the CPU, taken by name alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..engine import EngineOptions
from .provider import Provider, Target, one_device

_XNNPACK, _DNNL = "XnnpackExecutionProvider", "DnnlExecutionProvider"


def _threads_of(key: str, target: Target, options: EngineOptions) -> Mapping[str, str]:
    """Their own pool has the session's number of threads; beside it, the runtime's waits for what is left over."""
    return {key: str(options.intra_op_num_threads)}


XNNPACK = Provider(
    _XNNPACK,
    option_keys="intra_op_num_threads",
    options=partial(_threads_of, "intra_op_num_threads"),
    built_in_devices=partial(one_device, _XNNPACK, "cpu", "the CPU, by XNNPACK", ""),
    is_on_cpu=True,
)
DNNL = Provider(
    _DNNL,
    option_keys="use_arena num_of_threads threadpool_args",
    options=partial(_threads_of, "num_of_threads"),
    built_in_devices=partial(one_device, _DNNL, "cpu", "the CPU, by oneDNN", ""),
    is_on_cpu=True,
)
