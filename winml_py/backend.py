"""The `onnx.backend` interface over load, bind and evaluate: the public names of `tools.onnx_backend`."""

from .tools.onnx_backend import WinMLBackend, WinMLBackendRep

__all__ = ["WinMLBackend", "WinMLBackendRep", "prepare", "run_model", "run_node", "supports_device"]

prepare, run_model = WinMLBackend.prepare, WinMLBackend.run_model
run_node, supports_device = WinMLBackend.run_node, WinMLBackend.supports_device
