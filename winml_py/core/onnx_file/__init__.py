"""An ONNX file, read in place."""
