"""QNN, for Qualcomm's NPUs: in builds of ONNX Runtime, or as a plugin. Its memory is not bound.

It has more options than are documented, and refuses those that it does not know by itself. None of them keeps what it
compiled: that is a model file of its own, with context binaries, which the program makes.
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
