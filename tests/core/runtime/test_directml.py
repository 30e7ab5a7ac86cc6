"""DirectML, by a substitute for the runtime: what a program sees that has it, from the list to the errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from helpers.models import unary
from helpers.providers import Runtime, runtime
from helpers.sessions import open_session
from winml_py import InvalidArgumentError, LearningModelDevice, LearningModelDeviceKind
from winml_py.core.runtime.providers import plugins, probe
from winml_py.core.runtime.providers.catalogue import DIRECTML
from winml_py.core.runtime.providers.provider import BUILT_IN, CPU_NAME

__all__ = ["runtime"]  # a fixture


def card(name: str, number: int, megabytes: int, is_discrete: bool, luid: int) -> Any:
    """A device as the runtime lists it on Windows, with the number that DXGI has for it."""
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
    return SimpleNamespace(ep_name=DIRECTML.name, ep_vendor="Microsoft", ep_metadata={"version": "1"}, device=hardware)


CARDS = [card("ACME Large", 1, 8192, True, (3 << 32) + 5), card("ACME Small", 0, 128, False, 6)]


@pytest.fixture(autouse=True)
def cards(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cards, tried as a new process tries them."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [DIRECTML.name, CPU_NAME])
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: CARDS)
    facts = probe.main(BUILT_IN)
    monkeypatch.setattr(plugins, "_probed", {BUILT_IN: plugins.Plugin(BUILT_IN, "", facts["devices"])})


def test_the_cards_are_listed_the_best_first() -> None:
    found = LearningModelDevice.find_all()[1:]
    facts = [(one.name, one.hardware, one.memory, one.supports_float16, one.adapter_id) for one in found]
    assert facts == [
        ("ACME Large", "gpu", 8192 << 20, True, (5, 3)),
        ("ACME Small", "gpu", 128 << 20, True, (6, 0)),
    ]


@pytest.mark.parametrize(
    ("wanted", "name", "number"),
    [
        (LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE, "ACME Large", "1"),
        (LearningModelDeviceKind.DIRECTX_MIN_POWER, "ACME Small", "0"),
        (LearningModelDeviceKind.DIRECTX, "ACME Large", "1"),
        ("dml", "ACME Large", "1"),
        ("ACME Small", "ACME Small", "0"),
    ],
)
def test_a_session_runs_on_the_card_that_is_asked_for(runtime: Runtime, wanted: Any, name: str, number: str) -> None:
    device = LearningModelDevice.find(wanted) if isinstance(wanted, str) else LearningModelDevice(wanted)
    session = open_session(unary("Neg", [2]), device)
    assert session.evaluate_features({"x": np.float32([1, -2])}).outputs["y"].to_numpy().tolist() == [-1, 2]
    assert (session.device.name, session.engine) == (name, DIRECTML.name)
    assert runtime.sessions[-1].providers == [(DIRECTML.name, {"device_id": number}), CPU_NAME]


def test_options_are_directmls_and_others_are_refused(runtime: Runtime) -> None:
    device = LearningModelDevice.find("dml")
    open_session(unary("Neg", [2]), device, provider_options={"disable_metacommands": True})
    assert runtime.sessions[-1].providers[0][1] == {"device_id": "1", "disable_metacommands": "1"}
    with pytest.raises(InvalidArgumentError, match="no option 'disable_metacommand'"):
        open_session(unary("Neg", [2]), device, provider_options={"disable_metacommand": True})
