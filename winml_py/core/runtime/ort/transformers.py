"""ONNX Runtime's float16 converter's knowledge of operators."""

# It knows the operators without float16 kernels, inputs that are always float32, and how to round so that the smallest
# numbers are kept: imported from there, all of this stays up to date.
from onnxruntime.transformers import float16 as float16_converter

__all__ = ["float16_converter"]
