"""A build of ONNX Runtime with DirectML by substitute: lists two cards, and computes on the CPU, in all processes.

    PYTHONPATH=tests/directml python ...

Python imports this module by its name when it starts, child processes too. What the runtime lists is as Windows lists
it: the best card first, with the numbers that DXGI has for them. A session on such a card notes its options in the file
that WINML_PY_TEST_OPTIONS names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from importlib.abc import MetaPathFinder
from types import SimpleNamespace
from typing import Any

CPU, DML = "CPUExecutionProvider", "DmlExecutionProvider"


class _Finder(MetaPathFinder):
    """Changes the module onnxruntime as soon as somebody has imported it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "onnxruntime":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_change(module: Any) -> None:
                run(module)
                change(module)

            spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


def card(name: str, number: int, megabytes: int, is_discrete: bool, luid: int) -> Any:
    """A device as the runtime lists it."""
    metadata = {
        "Description": name,
        "Discrete": str(int(is_discrete)),
        "DxgiAdapterNumber": str(number),
        "DxgiVideoMemory": f"{megabytes} MB",
        "LUID": str(luid),
    }
    hardware = SimpleNamespace(
        type="OrtHardwareDeviceType.GPU", vendor="ACME", vendor_id=7, device_id=9, metadata=metadata
    )
    return SimpleNamespace(ep_name=DML, ep_vendor="Microsoft", ep_metadata={"version": "1"}, device=hardware)


CARDS = [card("ACME Large", 1, 8192, True, (3 << 32) + 5), card("ACME Small", 0, 128, False, 6)]


def change(runtime: Any) -> None:
    """Has the runtime list DirectML, and compute on the CPU what is to run there."""
    native_session, native_devices = runtime.InferenceSession, runtime.get_ep_devices
    runtime.get_available_providers = lambda: [DML, CPU]
    runtime.get_ep_devices = lambda: [*CARDS, *native_devices()]

    class Session(native_session):  # type: ignore[misc, valid-type]
        def __init__(self, model: Any, options: Any = None, providers: Any = None, **more: Any) -> None:
            names = [one if isinstance(one, str) else one[0] for one in providers or ()]
            self._is_on_card = DML in names
            if self._is_on_card:
                settings = next(one[1] for one in providers if not isinstance(one, str) and one[0] == DML)
                if int(settings.get("device_id", 0)) not in (0, 1):
                    raise RuntimeError("There is no such adapter.")
                if path := os.environ.get("WINML_PY_TEST_OPTIONS"):
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump(settings, file)
                options.add_session_config_entry("session.disable_cpu_ep_fallback", "0")
            super().__init__(model, options, [CPU], **more)

        def get_providers(self) -> list[str]:
            return [DML, CPU] if self._is_on_card else super().get_providers()

    runtime.InferenceSession = Session


sys.meta_path.insert(0, _Finder())
