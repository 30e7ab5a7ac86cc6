"""Engines, which compile and run models. The only package that imports onnxruntime or openvino.

When it is imported, ONNX Runtime (1.29 and later) reads whether it may collect telemetry. So this package disables
telemetry before any of its modules imports ONNX Runtime. Child processes inherit the variable, and plugins with their
own telemetry read it, too.
"""

from __future__ import annotations

import os
import sys

TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"
"""ONNX Runtime's variable: 1 is off, 0 is on. The user's setting is not changed."""


def _turn_telemetry_off() -> None:
    if TELEMETRY_VARIABLE in os.environ:
        return
    os.environ[TELEMETRY_VARIABLE] = "1"
    imported = sys.modules.get("onnxruntime")
    if imported is not None and hasattr(imported, "disable_telemetry_events"):
        # It has already written its files, but no names of our models.
        imported.disable_telemetry_events()


_turn_telemetry_off()
