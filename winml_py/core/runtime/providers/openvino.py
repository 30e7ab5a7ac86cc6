"""OpenVINO twice: as a package, for CPUs of any vendor; and as a plugin, for Intel's CPUs, GPUs and NPUs.

Both take only the host's memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ....enums import Precision
from ...base.machine import count_usable_cores
from ..engine import EngineOptions
from .provider import Provider, Target

_HINTS = {Precision.FLOAT32: "f32", Precision.FLOAT16: "f16", Precision.BFLOAT16: "bf16"}

TYPES_BY_HINT = {hint: precision for precision, hint in _HINTS.items()}
"""The number types, by OpenVINO's names."""


def _make_options(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """Always sets the precision: by default OpenVINO uses bfloat16 on CPUs, and float16 on GPUs, that support it."""
    hardware = target.device.hardware if target.device else ""
    config: dict[str, str | int] = {"INFERENCE_PRECISION_HINT": _HINTS[target.precision]}
    if hardware == "cpu":
        config |= {"PERFORMANCE_HINT": "LATENCY", **_choose_threads(options)}
    return {"load_config": json.dumps({hardware.upper(): config})} if hardware in ("cpu", "gpu") else {}


def _choose_threads(options: EngineOptions) -> Mapping[str, str]:
    """As many concurrent calls as the cores allow, each with the threads that one call may use.

    In one stream OpenVINO runs calls one after the other. The streams share the weights.
    """
    streams = max(1, count_usable_cores() // options.intra_op_num_threads)
    return {"NUM_STREAMS": str(streams), "INFERENCE_NUM_THREADS": str(streams * options.intra_op_num_threads)}


def _make_package_options(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """The same; and disables the quantization of activations, which OpenVINO does for weights of 8 bits."""
    return {
        "INFERENCE_PRECISION_HINT": _HINTS[target.precision],
        "PERFORMANCE_HINT": "LATENCY",
        **_choose_threads(options),
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    }


_EXACT = """Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Clip
    Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh DepthToSpace DequantizeLinear Div Dropout Elu Equal Erf
    Exp Expand Flatten Floor GRU Gather Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
    GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
    LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul MaxPool Mean MeanVarianceNormalization Mish Mul Neg
    NonZero Not Or PRelu Pad Pow QuantizeLinear RNN Range Reciprocal ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize Round Selu Shape Sigmoid Sign Sin Sinh Size Slice Softmax
    Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Transpose Unsqueeze Where Xor"""
"""The operators whose cases in ONNX's conformance suite it passes. Excluded: Max, which loses NaN; Tile, DFT,
Attention, TopK (the order of ties) and NonMaxSuppression, which fail cases; operators that write at given indices."""

OPENVINO_PACKAGE = Provider(
    "openvino",
    option_keys="""NUM_STREAMS INFERENCE_NUM_THREADS INFERENCE_PRECISION_HINT PERFORMANCE_HINT EXECUTION_MODE_HINT
        PERFORMANCE_HINT_NUM_REQUESTS ENABLE_CPU_PINNING ENABLE_CPU_RESERVATION SCHEDULING_CORE_TYPE
        MODEL_DISTRIBUTION_POLICY ENABLE_HYPER_THREADING CPU_DENORMALS_OPTIMIZATION
        CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE ENABLE_TENSOR_PARALLEL TBB_PARTITIONER DYNAMIC_QUANTIZATION_GROUP_SIZE
        KV_CACHE_PRECISION KEY_CACHE_PRECISION VALUE_CACHE_PRECISION KEY_CACHE_GROUP_SIZE VALUE_CACHE_GROUP_SIZE""",
    options=_make_package_options,
    exact_operators=frozenset(_EXACT.split()),
    package="openvino",
    probe="winml_py.core.runtime.openvino.probe",
)

OPENVINO = Provider(
    "OpenVINOExecutionProvider",
    rank=1,
    # Without load_config, which sets the precision and the threads here, and options for what load_config has.
    option_keys="""device_type device_id device_luid cache_dir context enable_qdq_optimizer disable_dynamic_shapes
        layout reshape_input""",
    options=_make_options,
    meta_device_key="ov_meta_device",
    exact_operators=frozenset(_EXACT.split()),
)
