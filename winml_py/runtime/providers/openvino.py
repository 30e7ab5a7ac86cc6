"""OpenVINO, a plugin: Intel's CPUs, GPUs and NPUs. Its memory is not bound: it takes the host's."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..engine import EngineOptions
from .provider import Provider, Target


def _options(target: Target, options: EngineOptions) -> Mapping[str, str]:
    """The precision is always stated: left alone OpenVINO takes bfloat16 on CPUs, and float16 on GPUs, that have it."""
    hardware = target.device.hardware if target.device else ""
    config: dict[str, str | int] = {"INFERENCE_PRECISION_HINT": "f16" if target.half else "f32"}
    if hardware == "cpu":
        config["INFERENCE_NUM_THREADS"] = options.intra_op_num_threads
        config |= {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1"}
    return {"load_config": json.dumps({hardware.upper(): config})} if hardware in ("cpu", "gpu") else {}


_EXACT = """Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Clip
    Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh DepthToSpace DequantizeLinear Div Dropout Elu Equal Erf
    Exp Expand Flatten Floor GRU Gather Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
    GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization
    LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul MaxPool Mean MeanVarianceNormalization Mish Mul Neg
    NonZero Not Or PRelu Pad Pow QuantizeLinear RNN Range Reciprocal ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize Round Selu Shape Sigmoid Sign Sin Sinh Size Slice Softmax
    Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Transpose Unsqueeze Where Xor"""
"""Those whose cases in ONNX's conformance suite it passes. Not among them: Max, which loses NaN; Tile, DFT, Attention,
TopK (the order of ties) and NonMaxSuppression, which fail cases; what works in place on indices that come as data."""

OPENVINO = Provider(
    "OpenVINOExecutionProvider",
    rank=2,
    option_keys="""device_type device_id device_luid num_of_threads num_streams cache_dir context enable_qdq_optimizer
        disable_dynamic_shapes load_config layout reshape_input""",
    options=_options,
    meta_device_key="ov_meta_device",
    exact_operators=frozenset(_EXACT.split()),
)
