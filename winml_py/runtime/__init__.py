"""Engines: what compiles and runs a model. The only room that imports onnxruntime."""
