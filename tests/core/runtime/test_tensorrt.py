"""What TensorRT does not take: it goes to CUDA, and only then to the CPU. No card: see `helpers/providers.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from helpers.models import data, tensor
from helpers.providers import PROVIDERS, Runtime, make_device, runtime
from helpers.sessions import open_session
from winml_py import LearningModelSession, NotSupportedError, Precision
from winml_py.core.runtime.providers.catalogue import CUDA, TENSORRT
from winml_py.core.runtime.providers.provider import CPU_NAME, Provider

__all__ = ["runtime"]  # a fixture

NODES = [helper.make_node(name, [x], [y], name) for name, x, y in (("Neg", "x", "p"), ("Abs", "p", "q"))]
MODEL = data([*NODES, helper.make_node("Sin", ["q"], ["y"], "Sin")], [tensor("x", [2])], [tensor("y", [2])])


def session(provider: Provider, number: int = 1, **settings: Any) -> LearningModelSession:
    return open_session(MODEL, make_device(provider, number=number), **settings)


def test_the_placement_names_who_took_each_node(runtime: Runtime) -> None:
    runtime.takes = {TENSORRT.name: {"Neg"}, CUDA.name: {"Neg", "Abs"}}
    made = session(TENSORRT)
    placed = {node.operator: node.provider for node in made.placement}
    assert placed == {"Neg": TENSORRT.name, "Abs": CUDA.name, "Sin": CPU_NAME}
    result = made.evaluate_features({"x": np.float32([1, -2])})
    np.testing.assert_allclose(result.outputs["y"].to_numpy(), np.sin(np.float32([1, 2])), rtol=1e-6)


def test_a_node_that_tensorrt_leaves_prevents_a_capture(runtime: Runtime) -> None:
    def refuse() -> None:
        raise RuntimeError("This session cannot use the graph capture feature: not all nodes have been partitioned")

    runtime.compiling = refuse
    with pytest.raises(NotSupportedError, match="graph capture requires that the provider supports every node"):
        session(TENSORRT, graph_capture=True)


def test_both_are_told_the_card_and_each_its_options(runtime: Runtime) -> None:
    given = {
        "trt_min_subgraph_size": 3,
        "cudnn_conv_use_max_workspace": True,
        "gpu_mem_limit": 9,
        "user_compute_stream": 7,
    }
    session(TENSORRT, precision=Precision.FLOAT32, provider_options=given)
    workspace = {"cudnn_conv_use_max_workspace": "1", "gpu_mem_limit": "9", "user_compute_stream": "7"}
    assert runtime.sessions[0].providers == [
        (TENSORRT.name, {"device_id": "1", "trt_min_subgraph_size": "3", "user_compute_stream": "7"}),
        (CUDA.name, {"device_id": "1", "use_tf32": "0"} | workspace),
        CPU_NAME,
    ]


def test_an_option_of_cuda_is_not_lost_where_tensorrt_is_alone(runtime: Runtime) -> None:
    """TensorRT refuses it then."""
    session(TENSORRT, graph_capture=True, provider_options={"gpu_mem_limit": 9})
    assert runtime.sessions[0].providers[0][1]["gpu_mem_limit"] == "9"


def test_cuda_helps_also_where_the_cpu_may_not(runtime: Runtime) -> None:
    session(TENSORRT, allow_cpu_fallback=False)
    (made,) = runtime.sessions
    assert made.names == [TENSORRT.name, CUDA.name, CPU_NAME]
    assert made.native.get_session_config_entry("session.disable_cpu_ep_fallback") == "1"


def test_a_captured_graph_is_of_tensorrt_alone(runtime: Runtime) -> None:
    session(TENSORRT, graph_capture=True)
    (made,) = runtime.sessions
    assert made.names == [TENSORRT.name, CPU_NAME]
    assert made.providers[0][1]["trt_cuda_graph_enable"] == "1"
    assert made.native.get_session_config_entry("session.disable_cpu_ep_fallback") == "1"


@pytest.mark.parametrize("provider", [provider for provider in PROVIDERS if provider is not TENSORRT])
def test_the_others_leave_nodes_to_the_cpu(runtime: Runtime, provider: Provider) -> None:
    session(provider)
    assert [made.names for made in runtime.sessions] == [[provider.name, CPU_NAME]]
