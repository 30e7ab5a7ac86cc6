"""The types of inputs and outputs, as ONNX Runtime spells them."""

from __future__ import annotations

from typing import Any

import numpy as np

_SAME_NAMES = "float16 double int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"

DTYPES: dict[str, np.dtype[Any]] = {f"tensor({name})": np.dtype(name) for name in _SAME_NAMES.split()}
"""The tensors that have a dtype of numpy's; `float` is numpy's float32."""
DTYPES["tensor(float)"] = np.dtype(np.float32)


def are_numeric(session: Any) -> bool:
    """Whether all inputs and outputs of a session are tensors of numbers."""
    kinds = [end.type for end in (*session.get_inputs(), *session.get_outputs())]
    return all(kind.startswith("tensor(") and kind != "tensor(string)" for kind in kinds)


def is_fixed(end: Any) -> bool:
    """Whether an input or output is a tensor of numbers whose shape nothing can change."""
    is_known = end.shape is not None and all(isinstance(size, int) and size > 0 for size in end.shape)
    return is_known and end.type in DTYPES


def host_inputs(session: Any) -> frozenset[str]:
    """The inputs that a session on a device reads in the host's memory: sizes, and inputs of nodes that run there."""
    ends = zip(session.get_inputs(), session.get_input_memory_infos(), strict=True)
    return frozenset(given.name for given, memory in ends if memory.name == "Cpu")
