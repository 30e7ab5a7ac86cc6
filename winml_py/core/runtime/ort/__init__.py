"""ONNX Runtime as an engine; with `providers`, the only place that imports `onnxruntime`."""
