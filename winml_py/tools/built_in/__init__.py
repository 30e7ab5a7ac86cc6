"""Contracts, labels and suppression as nodes of a model, so that it takes pictures in any ONNX runtime."""
