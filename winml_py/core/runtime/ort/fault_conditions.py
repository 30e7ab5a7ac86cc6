"""What a node must have for a known fault to end the process; each is true only where the graph surely shows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from .node_facts import NodeFacts, Shape

if TYPE_CHECKING:
    from ...base.arrays import Array

Condition = Callable[[NodeFacts], bool]


def lacks(*indices: int) -> Condition:
    """One of these inputs is left out."""
    return lambda node: not node.is_given(*indices)


def is_empty(*indices: int) -> Condition:
    """One of these inputs has no elements."""
    return lambda node: node.is_empty(*indices)


def has_gap(node: NodeFacts) -> bool:
    """An input is left out between others, or behind them."""
    return any(not name for name in node.node.input)


def is_reversed_range(node: NodeFacts) -> bool:
    """Its `low` is above its `high`, or one of them is no number."""
    low, high = node.attribute("low", 0.0), node.attribute("high", 1.0)
    return low is not None and high is not None and not low <= high


def is_flat_scale(node: NodeFacts) -> bool:
    """Its `scale` is not above 0."""
    scale = node.attribute("scale", 1.0)
    return scale is not None and not scale > 0


def is_positive(numbers: Array | None) -> bool:
    """Whether one of these numbers is above 0."""
    return numbers is not None and bool((numbers > 0).any())


def is_rank(index: int, ranks: Sequence[int]) -> Condition:
    """An input has one of these numbers of dimensions."""
    return lambda node: node.rank(index) in ranks


def is_not_square(node: NodeFacts) -> bool:
    """The last two sizes of its input differ."""
    rows, columns = node.size(0, -2), node.size(0, -1)
    return rows is not None and columns is not None and rows != columns


def has_no_count(index: int) -> Condition:
    """An input has no elements."""
    return lambda node: node.count(index) == 0


def is_constant_of_nothing(*indices: int) -> Condition:
    """One of these inputs is a constant without elements."""
    return lambda node: any(node.is_constant(index) and node.count(index) == 0 for index in indices)


def computes_zero_points(node: NodeFacts) -> bool:
    """The output's scale and zero point are constants, and the zero point of an input is none."""
    return node.is_constant(7, 8) and not node.is_constant(3, 6)


def is_frame_of_nothing(node: NodeFacts) -> bool:
    """It has no window, and the length of its frames is the constant 0."""
    numbers = node.numbers(3)
    return not node.is_given(2) and numbers is not None and numbers.size == 1 and int(numbers.ravel()[0]) == 0


def has_no_head_size(node: NodeFacts) -> bool:
    """The heads of queries or values have the size 0, where there are any."""
    rows = (node.shape(0) or ())[:2]
    return 0 not in rows and any(node.rank(index) == 3 and node.size(index, 2) == 0 for index in (0, 2))


def rank(node: NodeFacts, index: int) -> float:
    """How many dimensions an input has; infinity where that is not known."""
    count = node.rank(index)
    return math.inf if count is None else count


def compares_nothing(node: NodeFacts) -> bool:
    """There are slices along its axis, and these have no elements."""
    shape, axis = node.shape(0), node.attribute("axis")
    if shape is None or axis is None or not -len(shape) <= axis < len(shape):
        return False
    behind = axis % len(shape) + 1
    return all(shape[:behind]) and 0 in shape[behind:]


def product_shape(left: Shape | None, right: Shape | None) -> Shape | None:
    """The shape of a matrix product; None where it is not known."""
    if not left or not right or None in left or None in right:
        return None
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    batch = list(zip_longest(reversed(left[:-2]), reversed(right[:-2]), fillvalue=1))
    return (*(one if other == 1 else other for one, other in reversed(batch)), *rows, *columns)


def outgrows_product(scale: int) -> Condition:
    """A scale has no elements, or several where the matrix product has one: the kernel writes behind its end."""

    def is_met(node: NodeFacts) -> bool:
        factors, product = node.shape(scale), product_shape(node.shape(0), node.shape(1))
        if factors is None or product is None:
            return False
        return (0 in factors and 0 not in product) or any(
            factors[-place] not in (None, 1) and (place > len(product) or product[-place] == 1)
            for place in range(1, len(factors) + 1)
        )

    return is_met


def has_few_indexes(node: NodeFacts) -> bool:
    """Its pool has more n-grams than it has indexes for them."""
    starts, indexes = node.attribute("ngram_counts"), node.attribute("ngram_indexes")
    pool = node.attribute("pool_int64s") or node.attribute("pool_strings")
    if not starts or indexes is None or not pool or sorted(starts) != list(starts) or starts[-1] > len(pool):
        return False
    ends = [*starts[1:], len(pool)]
    grams = sum((end - start) // (length + 1) for length, (start, end) in enumerate(zip(starts, ends, strict=True)))
    return bool(grams > len(indexes))


def takes_less_than_nothing(node: NodeFacts) -> bool:
    """The first of its `inputdimensions` is above 0, and a later one below."""
    sizes = node.attribute("inputdimensions") or [0]
    return bool(sizes[0] > 0 and min(sizes) < 0)


def all_heads(node: NodeFacts) -> int:
    """How many heads a packed input has: queries, keys and values."""
    return int((node.attribute("num_heads") or 0) + 2 * (node.attribute("kv_num_heads") or 0))


def has_few_outputs(node: NodeFacts) -> bool:
    """Its `num_outputs` is less than it has outputs."""
    count = node.attribute("num_outputs", math.inf)
    return count is not None and 1 <= count < len(node.node.output)


def is_window_larger(node: NodeFacts, first: int, count: int) -> bool:
    """A pool's window is larger than its input, padding included, in one of `count` sizes from the `first` on."""
    kernel, shape = node.attribute("kernel_shape"), node.shape(0)
    dilations = node.attribute("dilations", [1] * len(kernel or ()))
    pads = node.attribute("pads", [0] * (2 * len(kernel or ())))
    if not kernel or shape is None or dilations is None or pads is None:
        return False
    if node.attribute("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or len(pads) != 2 * len(kernel):
        return False
    sizes = shape[first : first + min(count, len(kernel))]
    return any(
        size is not None and size + pads[axis] + pads[axis + len(kernel)] < (window - 1) * dilation + 1
        for axis, (size, window, dilation) in enumerate(zip(sizes, kernel, dilations, strict=False))
    )


def stacks_unlike_tensors(node: NodeFacts) -> bool:
    """The tensors of its sequence become one along a new axis, differ in shape, and one of them has no elements."""
    shapes = node.elements(0)
    return bool(node.attribute("new_axis", 0)) and len(set(shapes)) > 1 and any(0 in shape for shape in shapes)


# Trees. The runtime goes down a tree by calls of itself, and its stack ends at about 30,000.


DEEPEST = 10_000
"""Steps from the root of a tree that the runtime takes on any stack of 8 MB."""


TREE_COLUMNS = (
    *("nodes_treeids", "nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids"),
    *("nodes_trueleafs", "nodes_falseleafs", "tree_roots"),
)


def has_deep_tree(node: NodeFacts) -> bool:
    """A tree of its forest is deeper than `DEEPEST`."""
    import numpy as np

    attributes = {attribute.name: attribute for attribute in node.node.attribute}
    if "nodes_truenodeids" not in attributes or len(attributes["nodes_truenodeids"].ints) < DEEPEST:
        return False  # as nearly every forest; the lists of a large one are not read for nothing
    columns = {name: np.asarray(attributes[name].ints, np.int64) for name in TREE_COLUMNS if name in attributes}
    branches = [columns["nodes_truenodeids"], columns.get("nodes_falsenodeids", np.zeros(0, np.int64))]
    size = len(branches[0])
    if "tree_roots" in columns:  # TreeEnsemble: children are places, of nodes or of leaves
        leaves = [columns.get("nodes_trueleafs", branches[0] * 0), columns.get("nodes_falseleafs", branches[0] * 0)]
        if not all(len(column) == size for column in (*branches, *leaves)):
            return False  # the runtime refuses it
        children = [np.where(leaf == 0, branch, -1) for branch, leaf in zip(branches, leaves, strict=True)]
        level = columns["tree_roots"]
    else:  # children are numbers within a tree; a leaf has numbers, too, which lead to nothing new
        trees, numbers = columns.get("nodes_treeids", branches[0][:0]), columns.get("nodes_nodeids", branches[0][:0])
        modes = attributes["nodes_modes"].strings if "nodes_modes" in attributes else ()
        if not all(len(column) == size for column in (*branches, trees, numbers, modes)):
            return False
        if np.unique(trees, return_counts=True)[1].max() < DEEPEST:
            return False
        is_branch = np.array([mode != b"LEAF" for mode in modes])
        order = np.lexsort((numbers, trees))
        width = int(max(numbers.max(), branches[0].max(), branches[1].max())) + 1
        keys = (trees * width + numbers)[order]
        children = []
        for branch in branches:
            wanted = trees * width + branch
            found = np.minimum(np.searchsorted(keys, wanted), size - 1)
            children.append(np.where(is_branch & (keys[found] == wanted), order[found], -1))
        level = np.setdiff1d(np.arange(size), np.concatenate(children))
    for _ in range(DEEPEST):
        level = np.unique(np.concatenate([child[level[(level >= 0) & (level < size)]] for child in children]))
        level = level[level >= 0]
        if not len(level):
            return False
    return True
