"""DirectML, in the package onnxruntime-directml: any GPU with a Direct3D 12 driver. Its memory cannot be bound.

The runtime lists its devices with the numbers of DXGI's adapters, which the option `device_id` takes.
"""

from .provider import Provider, make_device_option

DIRECTML = Provider(
    "DmlExecutionProvider",
    rank=1,
    option_keys="device_id performance_preference device_filter disable_metacommands",
    options=make_device_option,
    is_sequential=True,
    takes_one_thread=True,
)
