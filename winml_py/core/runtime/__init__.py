"""Engines: what compiles and runs a model. The only room that imports onnxruntime, or openvino.

ONNX Runtime (1.29 and later) reads, when it is imported, whether it may collect telemetry. So this room says no before
any of its modules imports it. Child processes inherit the answer, and plugins that bring telemetry of their own read
the same variable.
"""

from __future__ import annotations

import os
import sys

TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"
"""ONNX Runtime's own variable: 1 is off, 0 is on. What the user has set is left alone."""


def _turn_telemetry_off() -> None:
    if TELEMETRY_VARIABLE in os.environ:
        return
    os.environ[TELEMETRY_VARIABLE] = "1"
    imported = sys.modules.get("onnxruntime")
    if imported is not None and hasattr(imported, "disable_telemetry_events"):
        # Its files are there already, but no names of our models.
        imported.disable_telemetry_events()


_turn_telemetry_off()
