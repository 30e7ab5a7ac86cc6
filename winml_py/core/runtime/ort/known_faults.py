"""Models that end ONNX Runtime's process: the operators, what a node has that does it, and in which versions.

`tests/tools/attack.py` found them. Each condition is one that no model meets which the runtime computes: the tests try
models that are nearly so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .fault_conditions import (
    all_heads,
    compares_nothing,
    computes_zero_points,
    has_deep_tree,
    has_few_indexes,
    has_few_outputs,
    has_gap,
    has_no_count,
    has_no_head_size,
    is_constant_of_nothing,
    is_empty,
    is_flat_scale,
    is_frame_of_nothing,
    is_not_square,
    is_positive,
    is_rank,
    is_reversed_range,
    is_window_larger,
    lacks,
    outgrows_product,
    rank,
    stacks_unlike_tensors,
    takes_less_than_nothing,
)
from .node_facts import NodeFacts

Version = tuple[int, ...]

CREATION, EVALUATION = "at creation", "at evaluation"

FIRST, LAST = (1, 24, 4), (1, 32, 0)
"""The versions that were tried. What the last has, later ones are taken to have as well."""


class Fault(NamedTuple):
    """A fault of the runtime.

    Attributes:
        operators: that have it, of one domain.
        words: what a node has that ends the process: "its batch_dims are below 0".
        is_met: whether a node surely has that.
        stage: when the process ends: of a session's creation, or of an evaluation.
        signal: how: with "SIGSEGV", say.
        since: the first version that has it.
        until: the last version that has it.
        is_checked_build: whether it is a check of the C++ library that ends the process, which builds for Linux have.
        domain: of the operators.
        is_in_graph: whether the graph can show it. Of others the runtime refuses what the graph shows, and ends where
            shapes are first known in an evaluation: see `LateCheck`.
    """

    operators: tuple[str, ...]
    words: str
    is_met: Callable[[NodeFacts], bool]
    stage: str = EVALUATION
    signal: str = "SIGSEGV"
    since: Version = FIRST
    until: Version = LAST
    is_checked_build: bool = False
    domain: str = ""
    is_in_graph: bool = True

    def is_in(self, version: Version, is_linux: bool) -> bool:
        """Whether a version of the runtime has it."""
        return (
            self.since <= version
            and (version <= self.until or self.until == LAST)
            and (is_linux or not self.is_checked_build)
        )


MS, NCHWC, ML = "com.microsoft", "com.microsoft.nchwc", "ai.onnx.ml"


KNOWN_FAULTS: tuple[Fault, ...] = (
    # What is left out.
    Fault(
        ("QLinearSigmoid", "QLinearLeakyRelu"),
        "its list of inputs ends before the zero point of the output",
        lambda node: len(node.node.input) < 5,
        CREATION,
        "SIGABRT",
        domain=MS,
    ),
    Fault(("Max", "Min", "Sum", "Mean", "Einsum"), "one of the inputs is left out", has_gap),
    Fault(("Crop",), "its input is left out", lacks(0)),
    Fault(("DynamicSlice",), "data, starts or ends are left out", lacks(0, 1, 2)),
    Fault(
        ("AttnLSTM",),
        "an input of its attention is left out",
        lacks(8, 9, 10, 11),
        domain=MS,
    ),
    Fault(("QLinearConcat",), "a scale or a zero point is left out", has_gap, domain=MS),
    Fault(
        ("DecoderMaskedMultiHeadAttention",),
        "it has past keys, and does not give the present ones",
        lambda node: node.is_given(5, 6) and not node.gives(1, 2),
        domain=MS,
    ),
    Fault(("QMoE",), "the scales of its weights are left out", lacks(3, 6), since=(1, 28, 0), domain=MS),
    # Attributes.
    Fault(
        ("RandomUniform", "RandomUniformLike"),
        "low is above high",
        is_reversed_range,
        signal="SIGABRT",
        is_checked_build=True,
    ),
    Fault(
        ("RandomNormal", "RandomNormalLike"),
        "scale is not above 0",
        is_flat_scale,
        signal="SIGABRT",
        is_checked_build=True,
    ),
    Fault(("GatherND",), "batch_dims are below -1", lambda node: (node.attribute("batch_dims", 0) or 0) < -1, CREATION),
    Fault(("Split",), "num_outputs is less than it has outputs", has_few_outputs, CREATION, "SIGABRT"),
    Fault(
        ("TfIdfVectorizer",),
        "its pool has more n-grams than ngram_indexes",
        has_few_indexes,
        signal="SIGABRT",
    ),
    Fault(
        ("FeatureVectorizer",),
        "its inputdimensions begin above 0, and one of them is below 0",
        takes_less_than_nothing,
        signal="SIGABRT",
        domain=ML,
    ),
    Fault(
        ("SparseAttention", "GroupQueryAttention"),
        "a number of heads is a multiple of 2^32",
        lambda node: any(
            node.attribute(name) and node.attribute(name) % (1 << 32) == 0 for name in ("num_heads", "kv_num_heads")
        ),
        signal="SIGFPE",
        domain=MS,
    ),
    Fault(
        ("SparsePagedAttention",),
        "num_heads and twice kv_num_heads are together a multiple of 2^64",
        lambda node: all_heads(node) != 0 and all_heads(node) % (1 << 64) == 0,
        CREATION,
        "SIGFPE",
        since=(1, 31, 0),
        domain=MS,
    ),
    # Ranks and sizes.
    Fault(
        ("OneHot",),
        "the depth is a constant without elements",
        is_constant_of_nothing(1),
        CREATION,
        "SIGABRT",
        until=(1, 31, 1),
    ),
    Fault(
        ("ConvInteger",),
        "the weight is a single number",
        is_rank(1, (0,)),
        signal="SIGABRT",
        until=(1, 31, 1),
        is_in_graph=False,
    ),
    Fault(
        ("WordConvEmbedding",),
        "its filters are constants without elements",
        lambda node: node.is_constant(0, 1, 2, 3) and node.size(1, 1) == 0,
        domain=MS,
    ),
    Fault(
        ("QLinearSoftmax",),
        "the scale or the zero point of the output is a constant without elements",
        is_constant_of_nothing(3, 4),
        domain=MS,
    ),
    Fault(
        ("QLinearWhere",),
        "a scale or a zero point is a constant without elements",
        is_constant_of_nothing(2, 3, 5, 6, 7, 8),
        CREATION,
        domain=MS,
    ),
    Fault(
        ("Multinomial",),
        "its input has less than two dimensions",
        is_rank(0, (0, 1)),
        is_in_graph=False,
    ),
    Fault(
        ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble"),
        "a tree is more than 10,000 deep",
        has_deep_tree,
        CREATION,
        domain=ML,
    ),
    Fault(
        ("ReverseSequence",),
        "its input has less than two dimensions",
        is_rank(0, (0, 1)),
        signal="SIGABRT",
        is_in_graph=False,
    ),
    Fault(
        ("ConcatFromSequence",),
        "it stacks tensors of different shapes, and one of them has no elements",
        stacks_unlike_tensors,
        signal="SIGABRT",
        is_in_graph=False,
    ),
    Fault(("DFT",), "its input is a single number", is_rank(0, (0,)), signal="SIGABRT", is_in_graph=False),
    Fault(
        ("STFT",), "its signal has less than two dimensions", is_rank(0, (0, 1)), signal="SIGABRT", is_in_graph=False
    ),
    Fault(("STFT",), "its window is a single number", is_rank(2, (0,)), signal="SIGABRT"),
    Fault(("STFT",), "its window has the length 0", lambda node: node.size(2, 0) == 0, signal="SIGFPE"),
    Fault(("STFT",), "its frames have the length 0", is_frame_of_nothing, signal="SIGFPE"),
    Fault(("SequenceAt", "SequenceErase"), "the position has no elements", has_no_count(1)),
    Fault(("SequenceInsert",), "the position has no elements", has_no_count(2)),
    Fault(
        ("GRU",),
        "its input has no elements, and it is not told how many steps each sequence has",
        lambda node: node.is_empty(0) and (not node.is_given(4) or is_positive(node.numbers(4))),
        signal="SIGABRT",
    ),
    Fault(("GRU", "LSTM"), "its batch has the size 0", lambda node: node.size(0, 1) == 0, signal="SIGABRT"),
    Fault(
        ("DynamicQuantizeLSTM",),
        "its batch has the size 0",
        lambda node: node.size(0, 1) == 0,
        signal="SIGABRT",
        domain=MS,
    ),
    Fault(
        ("AttnLSTM",),
        "its input has less than three dimensions, or no elements",
        lambda node: node.rank(0) in (0, 1, 2) or node.is_empty(0),
        signal="SIGABRT",
        domain=MS,
    ),
    Fault(
        ("Unique",),
        "what it compares along its axis has no elements",
        compares_nothing,
        signal="SIGABRT",
    ),
    Fault(("Inverse",), "its input is not square", is_not_square, domain=MS, is_in_graph=False),
    Fault(
        ("RotaryEmbedding",),
        "its heads have the size 0",
        lambda node: node.rank(0) == 4 and node.size(0, 3) == 0 and all((node.shape(0) or ())[:3]),
        since=(1, 26, 0),
        domain=MS,
    ),
    Fault(
        ("MultiHeadAttention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention"),
        "its heads have the size 0",
        has_no_head_size,
        signal="SIGFPE",
        domain=MS,
    ),
    Fault(
        ("QAttention", "GroupQueryAttention"),
        "its batch is empty",
        lambda node: node.rank(0) == 3 and node.size(0, 0) == 0,
        signal="SIGFPE",
        domain=MS,
    ),
    Fault(
        ("Attention",),
        "it has past keys and values, and one of them has less than four dimensions",
        lambda node: node.is_given(4, 5) and min(rank(node, 4), rank(node, 5)) < 4,
        signal="SIGABRT",
    ),
    Fault(
        ("EmbedLayerNormalization",),
        "it has positions, and these or its numbers of words have less than two dimensions",
        lambda node: node.is_given(8) and min(rank(node, 0), rank(node, 8)) < 2,
        signal="SIGABRT",
        domain=MS,
    ),
    Fault(
        ("QMoE",),
        "its weights are constants of other than three dimensions",
        lambda node: any(node.is_constant(index) and node.rank(index) != 3 for index in (2, 5)),
        CREATION,
        "SIGABRT",
        domain=MS,
    ),
    Fault(
        ("Range",),
        "start, limit or delta have no elements, and are float16",
        is_empty(0, 1, 2),
        since=(1, 32, 0),
        is_in_graph=False,
    ),
    Fault(
        ("Loop",),
        "its count or its condition is a constant without elements",
        is_constant_of_nothing(0, 1),
    ),
    Fault(
        ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
        "what is added has no elements, and its input has some",
        lambda node: node.size(1, 0) == 0 and node.count(0) not in (None, 0),
        signal="SIGFPE",
        domain=MS,
    ),
    Fault(
        ("FeatureVectorizer",),
        "its inputs have no rows",
        lambda node: node.size(0, 0) == 0 and (node.rank(0) or 0) > 1 and node.is_given(1),
        signal="SIGABRT",
        domain=ML,
    ),
    Fault(
        ("MatMulIntegerToFloat",),
        "the scale of its first input is larger than the product",
        outgrows_product(2),
        domain=MS,
    ),
    Fault(
        ("MatMulIntegerToFloat",),
        "the scale of its second input is larger than the product",
        outgrows_product(3),
        domain=MS,
    ),
    Fault(
        ("DynamicQuantizeMatMul",),
        "the scale of its second input is larger than the product",
        outgrows_product(2),
        domain=MS,
    ),
    Fault(
        ("QLinearWhere",),
        "the zero point of the output is a constant, and that of an input is not",
        computes_zero_points,
        CREATION,
        domain=MS,
    ),
    Fault(
        ("MaxPool", "AveragePool"),
        "its window is higher than its input",
        lambda node: is_window_larger(node, 2, 1),
        signal="SIGFPE",
        domain=NCHWC,
    ),
    Fault(
        ("GlobalMaxPool", "GlobalAveragePool"),
        "its batch and its pictures have the size 0",
        lambda node: node.size(0, 0) == 0 and 0 in (node.size(0, 2), node.size(0, 3)),
        signal="SIGFPE",
        domain=NCHWC,
    ),
    Fault(
        ("QLinearAveragePool",),
        "its channels are last, and its window is larger than its input",
        lambda node: bool(node.attribute("channels_last", 0)) and is_window_larger(node, 1, 2),
        signal="SIGFPE",
        domain=MS,
    ),
)
