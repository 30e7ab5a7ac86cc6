"""ONNX Runtime's own provider, on the CPU."""

from .provider import CPU_NAME, Provider

CPU = Provider(CPU_NAME, option_keys="")
