"""MIGraphX, in builds of ONNX Runtime for AMD's GPUs. Its memory cannot be bound, and it checks its options itself."""

from functools import partial

from .provider import Provider, device_option, one_device

_NAME = "MIGraphXExecutionProvider"

MIGRAPHX = Provider(
    _NAME,
    rank=1,
    options=device_option,
    cache_options=lambda folder: {"migraphx_model_cache_dir": folder},
    built_in_devices=partial(one_device, _NAME, "gpu", "AMD's GPU, by MIGraphX", "AMD"),
)
