"""QNN, for Qualcomm's NPUs: in builds of ONNX Runtime, or as a plugin. Its memory cannot be bound.

It has more options than are documented, and refuses unknown ones itself. None of them saves compiled models: these are
separate model files, with context binaries, which the program makes.
"""

from __future__ import annotations

from functools import partial

from .provider import Provider, one_device

_NAME = "QNNExecutionProvider"

QNN = Provider(
    _NAME,
    rank=4,
    options=lambda target, options: {"backend_type": "htp"},
    built_in_devices=partial(one_device, _NAME, "npu", "Qualcomm's NPU, by QNN", "Qualcomm"),
)
