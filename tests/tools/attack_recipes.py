"""What operators of ONNX Runtime's own take: shapes that fit together, for `tests/tools/attack_models.py`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """Inputs that an operator takes.

    Attributes:
        inputs: "element sizes; ...", where "-" is left out, "!" means numbers above 0, and "=" tells the numbers.
        attributes: of the node; a text may be the name of a size.
        outputs: how many.
    """

    inputs: str
    attributes: Mapping[str, Any] = MappingProxyType({})
    outputs: int = 1


def sized(rng: random.Random) -> dict[str, int]:
    """Sizes by name: batch, steps, heads, the width of a head, all heads, channels, and others."""
    b, s, n, d = rng.choice((1, 2)), rng.choice((1, 2, 4)), rng.choice((1, 2)), rng.choice((4, 8, 16))
    return {"b": b, "s": s, "n": n, "d": d, "h": n * d, "t": s + 2, "c": rng.choice((1, 2, 4)), "w": 5, "k": 3, "p": 2}


def _ms(name: str) -> tuple[str, str]:
    return "com.microsoft", name


RECIPES: dict[tuple[str, str], list[Recipe]] = {
    _ms("Attention"): [
        Recipe("float b,s,h; float h,3*h; float 3*h", {"num_heads": "n"}),
        Recipe("float b,s,h; float h,3*h; float 3*h; int32 b", {"num_heads": "n"}),
        Recipe(
            "float b,s,h; float h,3*h; float 3*h; int32 b,p+s; float 2,b,n,p,d",
            {"num_heads": "n", "unidirectional": 1},
            2,
        ),
        Recipe("float b,s,h; float h,3*h; float 3*h; -; -; float b,n,s,s", {"num_heads": "n"}),
    ],
    _ms("AttnLSTM"): [
        Recipe(
            "float s,b,d; float 1,4*k,k+d; float 1,4*k,k; float 1,8*k; int32! b; float 1,b,k; "
            "float 1,b,k; float 1,3*k; float 1,k,c; float 1,d,c; float 1,c; float b,t,d; int32! b; "
            "float 1,d+k,k",
            {"hidden_size": "k", "direction": "forward"},
            3,
        ),
        Recipe(
            "float s,b,d; float 2,4*k,d+d; float 2,4*k,k; float 2,8*k; int32! b; -; -; -; float 2,k,c; "
            "float 2,d,c; float 2,c; float b,t,d; int32! b",
            {"hidden_size": "k", "direction": "bidirectional"},
            3,
        ),
    ],
    _ms("BiasGelu"): [Recipe("float b,s,h; float h")],
    _ms("BifurcationDetector"): [Recipe("int64 s; int64 s; int64 1; int64 t", {}, 2)],
    _ms("CDist"): [Recipe("float s,d; float t,d", {"metric": "euclidean"})],
    _ms("CausalConvWithState"): [Recipe("float b,c,s; float c,1,k; float c; float b,c,k-1", {"activation": "silu"}, 2)],
    _ms("ConvTransposeWithDynamicPads"): [
        Recipe("float b,c,w,w; float c,p,k,k; int64 4; float p", {"strides": [1, 1]})
    ],
    _ms("CropAndResize"): [Recipe("float b,c,w,w; float s,4; int32 s; int32! 2")],
    _ms("DecoderMaskedMultiHeadAttention"): [
        Recipe(
            "float b,1,h; float b,1,h; float b,1,h; -; -; float b,n,t,d; float b,n,t,d; int32 1",
            {"num_heads": "n", "past_present_share_buffer": 1},
            3,
        )
    ],
    _ms("DequantizeLinear"): [
        Recipe("uint8 b,c,w; float ; uint8 "),
        Recipe("int8 b,c,w; float c; int8 c", {"axis": 1}),
    ],
    _ms("QuantizeLinear"): [Recipe("float b,c,w; float ; uint8 "), Recipe("float b,c,w; float c; int8 c", {"axis": 1})],
    _ms("DynamicQuantizeLSTM"): [
        Recipe(
            "float s,b,d; uint8 1,d,4*k; uint8 1,k,4*k; float 1,8*k; int32 b; float 1,b,k; "
            "float 1,b,k; float 1,3*k; float 1; uint8 1; float 1; uint8 1",
            {"hidden_size": "k"},
            3,
        )
    ],
    _ms("DynamicQuantizeMatMul"): [Recipe("float b,s,d; uint8 d,h; float ; uint8 ; float h")],
    _ms("DynamicTimeWarping"): [Recipe("float s,t")],
    _ms("EmbedLayerNormalization"): [
        Recipe("int32 b,s; int32 b,s; float w,d; float t,d; float p,d; float d; float d; int32 b,s", {}, 2)
    ],
    _ms("ExpandDims"): [Recipe("float b,s,h; int32 ")],
    _ms("FastGelu"): [Recipe("float b,s,h; float h")],
    _ms("FusedConv"): [Recipe("float b,c,w,w; float p,c,k,k; float p; float b,p,k,k", {"activation": "Relu"})],
    _ms("FusedGemm"): [Recipe("float s,d; float d,h; float h", {"activation": "Relu"})],
    _ms("FusedMatMul"): [Recipe("float b,s,d; float b,d,h", {"alpha": 1.0})],
    _ms("TransposeMatMul"): [Recipe("float b,s,d; float b,d,h", {"alpha": 1.0})],
    _ms("GatedRelativePositionBias"): [
        Recipe("float b,s,h; float h; float b,n,s,s; float d,8; float 8; float 1,n,1,1", {"num_heads": "n"})
    ],
    _ms("GatherBlockQuantized"): [
        Recipe("uint8 4,32; int64 s; float 4,4; uint8 4,2", {"block_size": 16, "bits": 4, "gather_axis": 0}),
        Recipe("uint8 4,64; int64 s; float 4,4; uint8 4,4", {"block_size": 16, "bits": 8, "quantize_axis": 1}),
        Recipe("int4 4,64; int64 s; float 4,4; int4 4,4", {"block_size": 16, "quantize_axis": 1}),
    ],
    _ms("GatherPacked"): [Recipe("uint8 4,64; int64 s", {"packed_type": 0, "K": 16, "output_dtype": 1})],
    _ms("GatedAdd"): [Recipe("float b,s,c; float b,s,c; float b,s,1")],
    _ms("GatedDeltaNet"): [
        Recipe("float s,n,d; float s,n,d; float s,n,d; int32=0,s; float s,n; float s,n; float 1,n,d,d", {}, 2)
    ],
    _ms("EngramGate"): [Recipe("float b,s,p,h; float b,s,p,h; float b,s,h; float p,h; float p,h; float p,h")],
    _ms("HyperConnectionPostMix"): [Recipe("float b,s,c,h; float b,s,h; float b,s,c; float b,s,c,c")],
    _ms("HyperConnectionPreMix"): [Recipe("float b,s,c,h; float b,s,c")],
    _ms("LinearAttentionGate"): [Recipe("float b,s,h; float h; float h; float b,s,h", {}, 2)],
    _ms("MoEGroupRouter"): [
        Recipe("float s,4; float 4", {"top_k": 2, "n_group": 2, "topk_group": 1, "group_topk": 1}, 4)
    ],
    _ms("MRotaryEmbedding"): [
        Recipe("float b,s,h; int64 3,b,s; float t,d//2; float t,d//2", {"mrope_section": [1, 1, 0], "num_heads": "n"})
    ],
    _ms("NGramHashMapping"): [
        Recipe("int64 b,s; int64! 3; int64! 2", {"max_ngram_size": 2, "n_head_per_ngram": 2, "pad_id": 0}, 2)
    ],
    _ms("VarlenNGramHashMapping"): [
        Recipe(
            "int64 s; int64! 3; int64! 2; int32=0,s; int64 1,1",
            {"max_ngram_size": 2, "n_head_per_ngram": 2, "pad_id": 0},
            2,
        )
    ],
    _ms("VarlenCausalConvWithState"): [Recipe("float s,c; float c,1,k; int32=0,s; float c; float 1,c,k-1", {}, 2)],
    _ms("GatherND"): [Recipe("float b,s,h; int64 s,2")],
    _ms("GridSample"): [Recipe("float b,c,w,w; float b,s,t,2")],
    _ms("GroupQueryAttention"): [
        Recipe(
            "float b,s,h; float b,s,h; float b,s,h; float b,n,t,d; float b,n,t,d; int32 b; int32 ",
            {"num_heads": "n", "kv_num_heads": "n"},
            3,
        ),
        Recipe(
            "float b,s,3*h; -; -; float b,n,t,d; float b,n,t,d; int32 b; int32 ; float t,d//2; float t,d//2",
            {"num_heads": "n", "kv_num_heads": "n", "do_rotary": 1},
            3,
        ),
    ],
    _ms("Inverse"): [Recipe("float b,k,k")],
    _ms("Irfft"): [Recipe("float b,c,w,2", {"signal_ndim": 1, "normalized": 0, "onesided": 1})],
    _ms("LinearAttention"): [
        Recipe(
            "float b,s,h; float b,s,h; float b,s,h; float b,n,d,d; float b,s,h; float b,s,n",
            {"q_num_heads": "n", "kv_num_heads": "n"},
            2,
        )
    ],
    _ms("MatMulBnb4"): [
        Recipe("float s,32; uint8 128; float 16", {"K": 32, "N": 8, "block_size": 16, "quant_type": 1})
    ],
    _ms("MatMulFpQ4"): [Recipe("float s,32; uint8 160; int64 2", {"blk_quant_type": 1})],
    _ms("MatMulInteger16"): [Recipe("int16 s,d; int16 d,h")],
    _ms("MatMulIntegerToFloat"): [
        Recipe("uint8 s,d; uint8 d,h; float ; float ; uint8 ; uint8 ; float h"),
        Recipe("uint8 b,s,d; int8 d,h; float ; float h; uint8 ; int8 h; float h"),
    ],
    _ms("MatMulNBits"): [
        Recipe("float s,32; uint8 8,2,8; float 16; uint8 8", {"K": 32, "N": 8, "bits": 4, "block_size": 16}),
        Recipe(
            "float b,s,64; uint8 8,2,16; float 8,2; -; int32 64; float 8",
            {"K": 64, "N": 8, "bits": 4, "block_size": 32, "accuracy_level": 4},
        ),
        Recipe("float s,32; uint8 8,2,16; float 16; uint8 8,2", {"K": 32, "N": 8, "bits": 8, "block_size": 16}),
    ],
    _ms("MaxpoolWithMask"): [Recipe("float b,c,w,w; int32 b,c,w,w", {"kernel_shape": [2, 2]})],
    _ms("MoE"): [Recipe("float s,d; float s,2; float 2,h,d; float 2,h; float 2,d,h; float 2,d", {"k": 1})],
    _ms("QMoE"): [
        Recipe(
            "float s,32; float s,2; uint8 2,64,16; float 2,64; -; uint8 2,32,16; float 2,32",
            {"k": 1, "expert_weight_bits": 4, "activation_type": "swiglu", "swiglu_fusion": 1},
        )
    ],
    _ms("MulInteger"): [Recipe("uint8 b,s; uint8 ; uint8 b,s; uint8 ")],
    _ms("MultiHeadAttention"): [
        Recipe("float b,s,h; float b,t,h; float b,t,h; float 3*h", {"num_heads": "n"}),
        Recipe("float b,s,h; float b,n,t,d; float b,n,t,d", {"num_heads": "n"}),
        Recipe("float b,s,n,3,d", {"num_heads": "n"}),
        Recipe(
            "float b,s,h; float b,s,h; float b,s,h; -; int32 b; float 1,n,s,s+p; float b,n,p,d; float b,n,p,d",
            {"num_heads": "n"},
            3,
        ),
    ],
    _ms("MurmurHash3"): [Recipe("int32 b,s", {"seed": 1, "positive": 1})],
    _ms("NGramRepeatBlock"): [Recipe("int64 b,s; float b,w", {"ngram_size": 2})],
    _ms("NhwcMaxPool"): [Recipe("uint8 b,w,w,c", {"kernel_shape": [2, 2]})],
    _ms("Pad"): [Recipe("float b,s; int64 4; float 1", {"mode": "constant"})],
    _ms("QAttention"): [
        Recipe("uint8 b,s,h; int8 h,3*h; float 3*h; float ; float ; int32 b; uint8 ; int8 ", {"num_heads": "n"}),
        Recipe(
            "uint8 b,s,h; int8 h,3*h; float 3*h; float ; float 3*h; -; uint8 ; int8 3*h; float 2,b,n,p,d",
            {"num_heads": "n", "unidirectional": 1},
            2,
        ),
    ],
    _ms("QEmbedLayerNormalization"): [
        Recipe(
            "int32 b,s; int32 b,s; uint8 w,d; uint8 t,d; uint8 p,d; uint8 d; uint8 d; int32 b,s; "
            "float ; float ; float ; float ; float ; uint8 ; uint8 ; uint8 ; uint8 ; uint8 ",
            {},
            2,
        )
    ],
    _ms("QGemm"): [
        Recipe("uint8 s,d; float ; uint8 ; uint8 d,h; float ; uint8 ; int32 h; float ; uint8 "),
        Recipe("uint8 s,d; float ; uint8 ; int8 d,h; float h; int8 h; int32 h"),
    ],
    _ms("QLinearAdd"): [Recipe("uint8 b,s,c; float ; uint8 ; uint8 s,c; float ; uint8 ; float ; uint8 ")],
    _ms("QLinearMul"): [Recipe("uint8 b,s,c; float ; uint8 ; uint8 s,c; float ; uint8 ; float ; uint8 ")],
    _ms("QLinearAveragePool"): [Recipe("uint8 b,c,w,w; float ; uint8 ; float ; uint8 ", {"kernel_shape": [2, 2]})],
    _ms("QLinearConcat"): [Recipe("float ; uint8 ; uint8 b,s; float ; uint8 ; uint8 b,s; float ; uint8 ", {"axis": 1})],
    _ms("QLinearConv"): [
        Recipe("uint8 b,c,w,w; float ; uint8 ; uint8 p,c,k,k; float ; uint8 ; float ; uint8 ; int32 p"),
        Recipe(
            "uint8 b,w,w,c; float ; uint8 ; int8 p,c,k,k; float p; int8 p; float ; uint8 ; int32 p",
            {"channels_last": 1},
        ),
    ],
    _ms("QLinearGlobalAveragePool"): [Recipe("uint8 b,c,w,w; float ; uint8 ; float ; uint8 ", {"channels_last": 0})],
    _ms("QLinearLeakyRelu"): [Recipe("uint8 b,s; float ; uint8 ; float ; uint8 ", {"alpha": 0.1})],
    _ms("QLinearReduceMean"): [Recipe("uint8 b,s,c; float ; uint8 ; float ; uint8 ", {"axes": [1], "keepdims": 1})],
    _ms("QLinearSigmoid"): [Recipe("uint8 b,s; float ; uint8 ; float ; uint8 ")],
    _ms("QLinearSoftmax"): [Recipe("uint8 b,s; float ; uint8 ; float ; uint8 ", {"opset": 13, "axis": 1})],
    _ms("QLinearWhere"): [Recipe("bool b,s; uint8 b,s; float ; uint8 ; uint8 b,s; float ; uint8 ; float ; uint8 ")],
    _ms("QuickGelu"): [Recipe("float b,s", {"alpha": 1.7})],
    _ms("Range"): [Recipe("int32 ; int32 ; int32 ")],
    _ms("RelativePositionBias"): [Recipe("float w,n; int64 ; int64 ", {"max_distance": 8})],
    _ms("Rfft"): [Recipe("float b,c,w", {"signal_ndim": 1, "normalized": 0, "onesided": 1})],
    _ms("RotaryEmbedding"): [
        Recipe("float b,s,h; int64 b,s; float t,d//2; float t,d//2"),
        Recipe("float b,n,s,d; int64 1; float t,d//2; float t,d//2"),
        Recipe("float b,s,h; int64 b,s; float t,2; float t,2", {"rotary_embedding_dim": 4, "num_heads": "n"}),
    ],
    _ms("SampleOp"): [Recipe("float b,s")],
    _ms("SkipLayerNormalization"): [Recipe("float b,s,h; float b,s,h; float h; float h; float h", {}, 4)],
    _ms("SkipSimplifiedLayerNormalization"): [Recipe("float b,s,h; float b,s,h; float h; float h", {}, 4)],
    _ms("SparseAttention"): [
        Recipe(
            "float b,s,h; float b,s,h; float b,s,h; float b,n,t,d; float b,n,t,d; int32 1,3; "
            "int32 1,3; int32 ; int32 b",
            {"num_heads": "n", "kv_num_heads": "n", "sparse_block_size": 16},
            3,
        )
    ],
    _ms("Tokenizer"): [
        Recipe("string b,s", {"mark": 1, "pad_value": "#", "mincharnum": 1, "separators": [" "]}),
        Recipe("string s", {"mark": 0, "pad_value": "#", "mincharnum": 1, "tokenexp": "[a-z]+"}),
    ],
    _ms("Trilu"): [Recipe("float b,k,k; int64 ")],
    _ms("UnfoldTensor"): [Recipe("float b,w", {"dim": 1, "size": 2, "step": 1})],
    _ms("Unique"): [Recipe("float s", {}, 3)],
    _ms("WordConvEmbedding"): [
        Recipe("int32 s,w; float c,1,k,d; float c; float t,d", {"embedding_size": "c", "conv_window_size": "k"})
    ],
    ("com.microsoft.nchwc", "Conv"): [
        Recipe("float b,16,w,w; float 16,16,k,k; float 16", {"activation": "Relu", "group": 1})
    ],
    ("com.microsoft.nchwc", "MaxPool"): [Recipe("float b,16,w,w", {"kernel_shape": [2, 2]})],
    ("com.microsoft.nchwc", "AveragePool"): [Recipe("float b,16,w,w", {"kernel_shape": [2, 2]})],
    ("com.microsoft.nchwc", "GlobalMaxPool"): [Recipe("float b,16,w,w")],
    ("com.microsoft.nchwc", "GlobalAveragePool"): [Recipe("float b,16,w,w")],
    ("com.microsoft.nchwc", "ReorderInput"): [Recipe("float b,16,w,w")],
    ("com.microsoft.nchwc", "ReorderOutput"): [Recipe("float b,16,w,w", {"channels": 16})],
    ("com.microsoft.nchwc", "Upsample"): [Recipe("float b,16,w,w", {"scales": [1, 1, 2, 2]})],
    ("", "GatherND"): [Recipe("float b,s,h; int64 s,2", {"batch_dims": 0})],
    ("", "LayerNormalization"): [Recipe("float b,s,h; float h; float h", {"axis": -1}, 3)],
    ("", "GRU"): [
        Recipe("float s,b,d; float 1,3*k,d; float 1,3*k,k; float 1,6*k; int32 b; float 1,b,k", {"hidden_size": "k"}, 2)
    ],
    ("", "LSTM"): [
        Recipe(
            "float s,b,d; float 1,4*k,d; float 1,4*k,k; float 1,8*k; int32 b; float 1,b,k; float 1,b,k; float 1,3*k",
            {"hidden_size": "k"},
            3,
        )
    ],
    ("", "RNN"): [
        Recipe(
            "float s,b,d; float 2,k,d; float 2,k,k; float 2,2*k; int32 b; float 2,b,k",
            {"hidden_size": "k", "direction": "bidirectional"},
            2,
        )
    ],
    ("", "RoiAlign"): [Recipe("float b,c,w,w; float s,4; int64 s", {"output_height": 2, "output_width": 2})],
    ("", "MaxRoiPool"): [Recipe("float b,c,w,w; float s,5", {"pooled_shape": [2, 2]})],
    ("", "Crop"): [Recipe("float b,c,w,w", {"border": [1, 1, 1, 1]})],
    ("", "ImageScaler"): [Recipe("float b,c,w,w", {"bias": [1.0], "scale": 2.0})],
    ("", "DynamicSlice"): [Recipe("float b,s,h; int64 2; int64! 2; int64 2")],
    ("", "SimplifiedLayerNormalization"): [Recipe("float b,s,h; float h", {"axis": -1})],
    ("", "QuantizeLinear"): [
        Recipe("float b,c,w; float ; uint8 "),
        Recipe("float b,c,w; float c; int8 c", {"axis": 1}),
    ],
    ("", "DequantizeLinear"): [
        Recipe("uint8 b,c,w; float ; uint8 "),
        Recipe("int8 b,c,w; float c; int8 c", {"axis": 1}),
        Recipe("int4 b,4,w; float b,2,w; int4 b,2,w", {"axis": 1, "block_size": 2}),
    ],
    ("", "DeformConv"): [Recipe("float b,c,w,w; float p,c,k,k; float b,18,k,k; float p; float b,9,k,k")],
    ("", "ConvInteger"): [Recipe("uint8 b,c,w,w; uint8 p,c,k,k; uint8 ; uint8 ")],
    ("", "MatMulInteger"): [Recipe("uint8 b,s,d; uint8 d,h; uint8 ; uint8 ")],
    ("", "QLinearConv"): [
        Recipe("uint8 b,c,w,w; float ; uint8 ; uint8 p,c,k,k; float ; uint8 ; float ; uint8 ; int32 p")
    ],
    ("", "QLinearMatMul"): [Recipe("uint8 b,s,d; float ; uint8 ; uint8 d,h; float ; uint8 ; float ; uint8 ")],
    ("", "Conv"): [Recipe("float b,c,w,w; float p,c,k,k; float p")],
    ("", "ConvTranspose"): [Recipe("float b,c,w,w; float c,p,k,k; float p")],
    ("", "OneHot"): [Recipe("int64 b,s; int64 ; float 2"), Recipe("int64 b,s; int64 1; float 2")],
    ("", "Upsample"): [Recipe("float b,c,w,w; float 4", {"mode": "linear"})],
    ("", "Resize"): [Recipe("float b,c,w,w; float 0; float 4", {"mode": "linear"})],
    ("", "Scatter"): [Recipe("float b,s; int64 b,s; float b,s")],
    ("ai.onnx.ml", "TreeEnsembleRegressor"): [
        Recipe(
            "float s,3",
            {
                "nodes_treeids": [0, 0, 0, 0, 0],
                "nodes_nodeids": [0, 1, 2, 3, 4],
                "nodes_featureids": [0, 1, 0, 0, 0],
                "nodes_values": [0.5, 0.1, 0.0, 0.0, 0.0],
                "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
                "nodes_truenodeids": [1, 2, 0, 0, 0],
                "nodes_falsenodeids": [4, 3, 0, 0, 0],
                "target_treeids": [0, 0, 0],
                "target_nodeids": [2, 3, 4],
                "target_ids": [0, 0, 0],
                "target_weights": [1.0, 2.0, 3.0],
                "n_targets": 1,
            },
        )
    ],
    ("ai.onnx.ml", "TreeEnsembleClassifier"): [
        Recipe(
            "float s,3",
            {
                "nodes_treeids": [0, 0, 0],
                "nodes_nodeids": [0, 1, 2],
                "nodes_featureids": [0, 0, 0],
                "nodes_values": [0.5, 0.0, 0.0],
                "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
                "nodes_truenodeids": [1, 0, 0],
                "nodes_falsenodeids": [2, 0, 0],
                "class_treeids": [0, 0],
                "class_nodeids": [1, 2],
                "class_ids": [0, 1],
                "class_weights": [1.0, 1.0],
                "classlabels_int64s": [0, 1],
            },
            2,
        )
    ],
    ("ai.onnx.ml", "SVMClassifier"): [
        Recipe(
            "float s,2",
            {
                "kernel_type": "LINEAR",
                "coefficients": [1.0, -1.0],
                "vectors_per_class": [1, 1],
                "support_vectors": [0.5, 0.1, 0.2, 0.3],
                "rho": [0.1],
                "classlabels_ints": [0, 1],
                "kernel_params": [0.1, 0.0, 3.0],
            },
            2,
        )
    ],
    ("ai.onnx.ml", "SVMRegressor"): [
        Recipe(
            "float s,2",
            {
                "kernel_type": "LINEAR",
                "kernel_params": [0.1, 0.0, 3.0],
                "coefficients": [1.0, -1.0],
                "n_supports": 2,
                "support_vectors": [0.5, 0.1, 0.2, 0.3],
                "rho": [0.1],
            },
        )
    ],
    ("ai.onnx.ml", "LinearClassifier"): [
        Recipe(
            "float s,2",
            {"coefficients": [1.0, -1.0, 0.5, 0.2], "intercepts": [0.1, 0.2], "classlabels_ints": [0, 1]},
            2,
        )
    ],
    ("ai.onnx.ml", "LinearRegressor"): [
        Recipe("float s,2", {"coefficients": [1.0, -1.0], "intercepts": [0.1], "targets": 1})
    ],
    ("ai.onnx.ml", "LabelEncoder"): [Recipe("int64 s", {"keys_int64s": [0, 1], "values_strings": ["a", "b"]})],
    ("ai.onnx.ml", "Scaler"): [Recipe("float s,3", {"offset": [0.1, 0.2, 0.3], "scale": [1.0, 2.0, 3.0]})],
    ("ai.onnx.ml", "Imputer"): [
        Recipe("float s,3", {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": 0.0})
    ],
    ("ai.onnx.ml", "ArrayFeatureExtractor"): [Recipe("float s,3; int64 2")],
    ("ai.onnx.ml", "OneHotEncoder"): [Recipe("int64 s", {"cats_int64s": [0, 1, 2], "zeros": 1})],
    ("ai.onnx.ml", "Normalizer"): [Recipe("float s,3", {"norm": "MAX"})],
    ("ai.onnx.ml", "FeatureVectorizer"): [Recipe("float s,3; float s,2", {"inputdimensions": [3, 2]})],
    ("ai.onnx.ml", "ZipMap"): [Recipe("float s,2", {"classlabels_int64s": [0, 1]})],
}
