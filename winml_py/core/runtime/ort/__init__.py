"""ONNX Runtime as an engine; the only room that imports `onnxruntime`, with `providers`."""
