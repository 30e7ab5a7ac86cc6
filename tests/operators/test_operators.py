"""Single operators as functions and in steps: against numpy, the onnx package's reference, and raw ONNX Runtime."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from helpers.paths import ROOT
from tools import operators_conformance
from winml_py import (
    ClosedError,
    EvaluationError,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModelDevice,
    LearningModelSessionOptions,
    NotSupportedError,
    SizeMismatchError,
    TensorFloat,
    TensorInt64Bit,
    TensorKind,
    operators,
)
from winml_py.errors import DeviceLostError, MissingInputError
from winml_py.operators import operator
from winml_py.testing import FakeDevice

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
W = X.T.copy()
OLD_ONNX = np.lib.NumpyVersion(onnx.__version__) < "1.22.0"


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    operators.clear_cache()


def cached() -> int:
    """The number of compiled operators that functions keep."""
    return operator._compile_cached.cache_info().currsize


def reference(operator: str, inputs: dict[str, np.ndarray], outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    """What the onnx package's own interpreter gives for one node."""
    names = [f"out{index}" for index in range(outputs)]
    ends = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph([helper.make_node(operator, list(inputs), names, **attributes)], "g", ends, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return list(ReferenceEvaluator(model).run(None, inputs))


def test_a_call_gives_what_the_reference_gives() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.random((1, 3, 9, 9), np.float32), rng.random((4, 3, 3, 3), np.float32)
    for attributes in ({"strides": [2, 2]}, {"pads": [1, 1, 1, 1], "dilations": (2, 2)}, {}):
        expected = reference("Conv", {"x": x, "w": w}, **attributes)[0]
        for _ in range(2):  # compiled, and from the cache
            np.testing.assert_allclose(operators.Conv(x, w, **attributes), expected, rtol=1e-5)
    expected = reference("Softmax", {"x": X}, axis=0)[0]
    np.testing.assert_allclose(operators.Softmax(X, axis=0), expected, rtol=1e-6)
    for strided in (X.T, X[:, ::2]):
        np.testing.assert_array_equal(operators.Identity(strided), strided)


def test_inputs_by_name_and_inputs_left_out() -> None:
    np.testing.assert_array_equal(operators.Clip(X, None, np.float32(2)), np.minimum(X, 2))
    np.testing.assert_array_equal(operators.Clip(X, max=2), np.minimum(X, 2))
    np.testing.assert_array_equal(operators.Clip(max=2, min=-1, input=X), np.clip(X, -1, 2))
    np.testing.assert_array_equal(operators.Concat(inputs=[X, X], axis=1), np.concatenate([X, X], 1))
    np.testing.assert_array_equal(operators.Relu(X, None), np.maximum(X, 0))


@pytest.mark.parametrize("kind", [list, tuple])
def test_one_list_is_all_inputs_of_an_operator_of_any_number(kind: Any) -> None:
    p, q = np.float32([1, 5]), np.float32([4, 2])
    compiled = operators.compile("Concat", kind([p, q]), axis=0)
    for found in (
        operators.Concat(kind([p, q]), axis=0),
        operators.Concat(kind([[1, 5], [4, 2]]), axis=0),
        operators.Concat(inputs=kind([p, q]), axis=0),
        compiled(kind([p, q])),
        compiled(p, q),
    ):
        assert found.tolist() == [1, 5, 4, 2]
    assert operators.Sum(kind([p, TensorFloat.from_numpy(q)])).to_numpy().tolist() == [5, 7]
    assert operators.Max([1, 5], [4, 2]).tolist() == [4, 5]  # two lists are two tensors
    assert operators.Max(data_0=p).tolist() == [1, 5]  # an array is one input


def test_pythons_numbers_take_the_type_of_the_other_input() -> None:
    np.testing.assert_array_equal(operators.Mul([1.5, 2.5], 2), np.float32([3, 5]), strict=True)
    np.testing.assert_array_equal(operators.Clip([1.5, 2.5], max=2), np.float32([1.5, 2]), strict=True)
    np.testing.assert_array_equal(operators.Mul([1, 2], 2), np.array([2, 4]), strict=True)
    for dtype in (np.float32, np.float64, np.int32):
        found = operators.Add(X.astype(dtype), 1)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, X.astype(dtype) + 1)
    assert operators.Neg(0.5).dtype == np.float32
    assert operators.Neg(2).dtype == np.int64
    np.testing.assert_array_equal(operators.Reshape(X, [3, -1]), X.reshape(3, -1))
    assert operators.Where([True, False], 1, 2).tolist() == [1, 2]
    assert operators.Not(True).tolist() is False


def test_outputs_by_number() -> None:
    values, indices = operators.TopK(X, [2])
    np.testing.assert_array_equal(values, np.sort(X)[:, ::-1][:, :2])
    np.testing.assert_array_equal(indices, np.argsort(-X)[:, :2])
    first, second = operators.Split(X.T.copy(), outputs=2, num_outputs=2)
    np.testing.assert_array_equal(np.concatenate([first, second]), X.T)
    assert len(operators.Split(X, [1, 2], axis=1, outputs=2)) == 2
    pooled = X.reshape(1, 1, 2, 3)
    assert isinstance(operators.MaxPool(pooled, kernel_shape=[2, 2]), np.ndarray)
    both = operators.MaxPool(pooled, kernel_shape=[2, 2], outputs=2)
    assert [array.dtype for array in both] == [np.float32, np.int64]


@pytest.mark.skipif(OLD_ONNX, reason="the interpreter of onnx below 1.22 does not give all outputs of an LSTM")
def test_optional_outputs() -> None:
    rng = np.random.default_rng(0)
    x, w, r = (rng.random(shape, np.float32) for shape in ((3, 1, 2), (1, 12, 2), (1, 12, 3)))
    expected = reference("LSTM", {"x": x, "w": w, "r": r}, outputs=3, hidden_size=3)
    for found, wanted in zip(operators.LSTM(x, w, r, hidden_size=3, outputs=3), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_attributes_of_every_kind() -> None:
    filled = operators.ConstantOfShape([2, 2], value=np.array([7], np.int64))
    assert filled.tolist() == [[7, 7], [7, 7]]
    assert operators.ConstantOfShape([1], value=TensorFloat.create_from_array([1], [2.5])).tolist() == [2.5]
    assert operators.Cast(X, to=TensorKind.INT32).dtype == np.int32
    assert operators.Constant(value_strings=["a", "b"]).tolist() == ["a", "b"]
    np.testing.assert_allclose(operators.Elu(X, alpha=2), np.where(X > 0, X, 2 * np.expm1(X)), rtol=1e-6)
    padded = operators.Pad(X, [1, 0, 0, 0], mode="edge")
    np.testing.assert_array_equal(padded, np.pad(X, ((1, 0), (0, 0)), mode="edge"))

    def branch(number: float) -> Any:
        node = helper.make_node("Constant", [], ["c"], value_float=number)
        return helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [])])

    for condition, expected in ((True, 1.5), (False, 2.5)):
        assert operators.If(condition, then_branch=branch(1.5), else_branch=branch(2.5), outputs=1) == expected


def test_strings_sequences_and_maps() -> None:
    assert operators.StringConcat(np.array(["a", "b"]), np.array(["x", "y"])).tolist() == ["ax", "by"]
    assert operators.StringConcat(["a"], ["b"]).tolist() == ["ab"]
    np.testing.assert_array_equal(operators.SequenceAt([X, X + 1], 1), X + 1)
    np.testing.assert_array_equal(operators.ConcatFromSequence([X, X], axis=0), np.concatenate([X, X]))
    assert operators.SequenceEmpty(dtype=TensorKind.INT64) == []
    grown = operators.SequenceInsert(operators.TensorSequence(np.int64), np.array([3]))
    assert [array.tolist() for array in grown] == [[3]]
    assert operators.SequenceLength(operators.SequenceInsert(grown, np.array([4]))) == 2
    row = operators.DictVectorizer({"b": 2.0, "c": 3.0}, string_vocabulary=["a", "b", "c"])
    np.testing.assert_array_equal(row.reshape(-1), [0, 2, 3])
    scores = operators.ZipMap(np.float32([[0.25, 0.75]]), classlabels_strings=["no", "yes"])
    assert scores == [{"no": 0.25, "yes": 0.75}]


def test_the_operators_of_onnx_runtime() -> None:
    found = operators.FusedMatMul(X, X, transB=1, alpha=2.0)
    np.testing.assert_allclose(found, 2 * X @ X.T, rtol=1e-6)
    gelu = operators.Gelu(X, domain="com.microsoft")
    np.testing.assert_allclose(gelu, operators.Gelu(X), rtol=1e-5, atol=1e-6)


def test_an_older_opset() -> None:
    scaled = operators.Upsample(X.reshape(1, 1, 2, 3), np.float32([1, 1, 2, 2]), opset=9)
    np.testing.assert_array_equal(scaled[0, 0], X.repeat(2, 0).repeat(2, 1))
    np.testing.assert_array_equal(operators.Squeeze(X[None], axes=[0], opset=11), X)
    np.testing.assert_array_equal(operators.Swish(X), operators.Swish(X, opset=24))  # newer than the default


def test_tensors_give_tensors() -> None:
    found = operators.Add(TensorFloat.create_from_array([2], [1, 2]), np.float32([10, 20]))
    assert isinstance(found, TensorFloat)
    assert found.to_numpy().tolist() == [11, 22]
    _, indices = operators.TopK(TensorFloat.create_from_array([1, 3], [1, 3, 2]), [1])
    assert isinstance(indices, TensorInt64Bit)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: operators.Relu(X, X), "Relu takes 1 input, got 2. Its inputs: X."),
        (lambda: operators.Relu(X, X=X), "Relu got the input X twice"),
        (lambda: operators.Conv(X, X, stride=[1]), "neither an input nor an attribute 'stride'.*mean 'strides'"),
        (lambda: operators.Softmax(X, axis=0.5), "for the attribute axis of Softmax: expected int, got 0.5."),
        (lambda: operators.Softmax(X, axis="no"), "attribute axis of Softmax: expected int, got 'no'"),
        (lambda: operators.Softmax(X, axis=None), "attribute axis of Softmax: expected int, got None"),
        (lambda: operators.Split(X), "Split cannot have outputs=None. Pass a number, for example outputs=2."),
        (lambda: operators.Relu(X, outputs=2), "Relu cannot have outputs=2. Its outputs: Y."),
        (lambda: operators.Relu(X, outputs=["Y"]), "Relu cannot have outputs=.'Y'."),
        (lambda: operators.Relu(X, domain="my"), "There is no operator 'Relu' in the domain 'my'"),
        (lambda: operators.Gelu(X, opset=13), "Opset 13 has no operator Gelu. Use opset 20"),
        (lambda: operators.Where(X, X, X, opset=8), "Opset 8 has no operator Where. Use opset 9 or later"),
        (
            lambda: operators.Clip(np.uint8([200, 5]), -1, 300),
            "-1 cannot be represented in the type of the input, uint8",
        ),
        (lambda: operators.Equal(np.int32([2]), 2.5), "2.5 cannot be represented in the type of the input, int32"),
        (
            lambda: operators.Add(np.float16([1]), 1e6),
            "1000000.0 cannot be represented in the type of the input, float16",
        ),
        (lambda: operators.Relu(X, opset="a"), "opset cannot be 'a'. Pass a whole number"),
        (lambda: operators.Identity(X.astype(">f4")), "ONNX has no >f4 tensors"),
        (operators.Relu, "The input 'X' of Relu is missing. Relu takes X."),
        (lambda: operators.Add(X), "The input 'B' of Add is missing. Add takes A, B."),
        (lambda: operators.compile("Add"), "The input 'A' of Add is missing"),
        (lambda: operators.Conv(X), "The input 'W' of Conv is missing. Conv takes X, W, B."),
        (lambda: operators.Clip(None, X), "The input 'input' of Clip is missing"),
        (lambda: operators.Add(X, X.astype(float)), r"float32.2,3., float64.2,3.: ONNX Runtime reported: Type Error"),
        (lambda: operators.Cast(X), "float32.2,3.: ONNX Runtime reported: Required attribute 'to' is missing"),
        (lambda: operators.compile("Reluu", X), "no operator 'Reluu'. Did you mean 'Relu'"),
    ],
)
def test_mistakes_are_refused_by_name(make: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        make()
    assert cached() == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: operators.MatMul(X, X), r"MatMul of ai.onnx 23 .* float32\[2,3\], float32.*\w\. To see its inputs"),
        (lambda: operators.Max(*np.ones((2, 2), np.int16)), r"Max of ai.onnx 23 cannot be compiled for int16"),
        (lambda: operators.Gather(X, [5]), "Gather node"),
        (lambda: operators.Concat(X), "Concat of ai.onnx 23 cannot be compiled for .* 'axis' is missing"),
        (lambda: operators.Relu(np.ones(2, bool)), r"Relu of ai.onnx 23 cannot be compiled for bool\[2\]: .*'tensor"),
        (lambda: operators.SequenceLength([]), "SequenceLength of ai.onnx 23 cannot be compiled"),
        (lambda: operators.Relu([X, X]), "Relu of ai.onnx 23 cannot be compiled for a sequence or a map"),  # no stack
        (
            lambda: operators.StringConcat(np.array([None], object), "a"),
            "TensorString takes str elements, not NoneType",
        ),
    ],
)
def test_what_the_runtime_refuses(make: Any, words: str) -> None:
    with pytest.raises((InvalidArgumentError, EvaluationError, NotSupportedError), match=words):
        make()


def test_the_names_are_those_of_the_schemas() -> None:
    names = dir(operators)
    assert {"Conv", "LSTM", "TreeEnsemble", "FusedMatMul", "compile"} <= set(names)
    assert "Upsample" not in names  # deprecated
    assert not hasattr(operators, "Rleu")
    with pytest.raises(AttributeError, match="Did you mean 'Relu'"):
        operators.Rleu  # noqa: B018 - it is asked for its error
    assert operators.Conv.__doc__.startswith("Conv of ai.onnx, since version 22.")
    assert {"* `W`: The weight", "* `strides`: Stride along"} <= {
        " ".join(line.split()[:4]) for line in operators.Conv.__doc__.splitlines()
    }
    for name in names:
        assert getattr(operators, name).__doc__


def test_a_call_compiles_once_for_its_types_shapes_and_attributes() -> None:
    for factor in (1, 2, 3):
        operators.Gemm(X * factor, W, alpha=1.0)
        assert cached() == 1
    for count, make in enumerate(
        (
            lambda: operators.Gemm(X[:1], W, alpha=1.0),
            lambda: operators.Gemm(X.astype(np.float64), W.astype(np.float64), alpha=1.0),
            lambda: operators.Gemm(X, W, alpha=2.0),
            lambda: operators.Gemm(X, W, alpha=1.0, opset=11),
            lambda: operators.Gemm(X, W, alpha=-0.0),
            lambda: operators.Gemm(X, W, alpha=0.0),
        ),
        2,
    ):
        make()
        assert cached() == count


def test_the_cache_keeps_the_newest_and_frees_what_it_drops(natives: list[weakref.ref[Any]]) -> None:
    for size in range(1, operator.CACHE_SIZE + 1):
        operators.Relu(np.zeros(size, np.float32))
    operators.Relu(np.zeros(1, np.float32))
    operators.Relu(np.zeros(0, np.float32))
    assert [engine() is None for engine in natives[:3]] == [False, True, False]
    operators.clear_cache()
    assert {engine() for engine in natives} == {None}


def test_eight_threads_with_a_cache_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "_compile_cached", lru_cache(2)(operator._compile_cached.__wrapped__))
    start = threading.Barrier(8)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(60):
            x = rng.random((int(rng.integers(1, 5)), 3), np.float32) - 0.5
            np.testing.assert_array_equal(operators.Relu(x), np.maximum(x, 0))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, seed) for seed in range(8)]:
            done.result()
    assert cached() <= 2


def test_the_callers_arrays_are_not_kept() -> None:
    x = X.copy()
    before = sys.getrefcount(x)
    found = operators.Relu(x)
    operators.Identity(found)
    assert sys.getrefcount(x) == before
    assert sys.getrefcount(found) == before


def test_bind_execute_dispose() -> None:
    a, b, out = X.copy(), X * 2, np.zeros_like(X)
    add = operators.compile("Add", a, b)
    with pytest.raises(MissingInputError, match=r"A .*B"):
        add.execute()
    add.bind(a, B=b, C=out)
    assert add.execute() is out
    np.testing.assert_array_equal(out, a + b)
    a += 1  # bound by reference
    add.execute(timeout=10)
    np.testing.assert_array_equal(out, a + b)
    with pytest.raises(InvalidBindingError):
        add.bind(a.astype(np.float64))
    with pytest.raises(SizeMismatchError):
        add.bind(a[:1])
    with pytest.raises(InvalidBindingError, match=r"A .*>f4"):
        add(a.astype(">f4"), b)
    with pytest.raises(InvalidArgumentError, match=r"compiled for 2 inputs, got 3. Pass A, B."):
        add.bind(a, b, a)
    with pytest.raises(InvalidArgumentError, match="Add got the input A twice"):
        add.bind(a, b, A=b)
    assert [feature.name for feature in add.model.input_features] == ["A", "B"]
    assert add.session.device.hardware == "cpu"
    add.dispose()
    add.dispose()
    for use in (add.execute, lambda: add.bind(a), lambda: add(a, b)):
        with pytest.raises(ClosedError):
            use()


def test_compiled_for_a_description_with_free_sizes() -> None:
    rows = operators.TensorDesc(np.float32, ("n", 3))
    with operators.compile("MatMul", rows, operators.TensorDesc("float32", (3, None))) as product:
        for n in (1, 4):
            a, b = np.ones((n, 3), np.float32), np.ones((3, n), np.float32)
            np.testing.assert_array_equal(product(a, b), a @ b)
            product.bind(a, b)
            np.testing.assert_array_equal(product.execute(), a @ b)
    with operators.compile("Clip", rows, None, operators.TensorDesc(np.float32, ())) as clip:
        assert clip(X, None, np.float32(1)).max() == 1
        clip.bind(X, max=np.float32(2))
        assert clip.execute().max() == 2
        with pytest.raises(InvalidBindingError, match="min"):
            clip(X, np.float32(0), np.float32(1))
        with pytest.raises(InvalidArgumentError, match="neither an input nor an attribute 'axis'"):
            clip(X, axis=1)
    with operators.compile("StringConcat", operators.TensorDesc(str, (1,)), operators.TensorDesc(str, (1,))) as concat:
        assert concat(["a"], ["b"]).tolist() == ["ab"]


def test_another_device_and_other_options() -> None:
    options = LearningModelSessionOptions()
    options.intra_op_num_threads = 2
    with operators.compile("Relu", X, options=options) as relu:
        assert relu.session.get_intra_op_num_threads() == 2
    with operators.compile("Relu", X) as relu:
        assert relu.session.get_intra_op_num_threads() == 1
        assert not relu.session.get_intra_op_thread_spinning()
    fake = FakeDevice(lambda inputs: {"Y": inputs["X"] * 10})
    np.testing.assert_array_equal(operators.Relu(X, device=fake), X * 10)
    for device in (None, LearningModelDevice(), LearningModelDevice()):
        np.testing.assert_array_equal(operators.Relu(X, device=device), np.maximum(X, 0))
    assert cached() == 3  # equal devices share what is compiled
    with pytest.raises(DeviceLostError):
        operators.Relu(X, device=FakeDevice(Mock(side_effect=DeviceLostError("Gone."))))
    assert cached() == 0  # a device that is found again compiles anew


def test_on_a_gpu(gpu: LearningModelDevice) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.random((1, 3, 9, 9), np.float32), rng.random((4, 3, 3, 3), np.float32)
    expected = operators.Conv(x, w, strides=[2, 2])
    for _ in range(2):
        found = operators.Conv(x, w, strides=[2, 2], device=gpu)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    with operators.compile("Relu", x, device=gpu) as relu:
        there = relu.session.upload(x)
        first = operators.Neg(there, device=gpu)
        second = operators.Relu(first, device=gpu)
        again = operators.Neg(relu.session.upload(x + 1), device=gpu)
    assert first.is_on_device
    assert second.is_on_device
    np.testing.assert_array_equal(first.to_numpy(), -x)  # a later call has not written over it
    np.testing.assert_array_equal(again.to_numpy(), -x - 1)
    np.testing.assert_array_equal(second.to_numpy(), np.maximum(-x, 0))


FORK = """
import os, sys, warnings
import numpy as np
from winml_py import operators
from winml_py.errors import IllegalCallError
warnings.simplefilter("ignore")
x = np.float32([-1, 2])
assert operators.Relu(x).tolist() == [0, 2]
compiled = operators.compile("Relu", x)
child = os.fork()
if child == 0:
    assert operators.Relu(x).tolist() == [0, 2]
    try:
        compiled(x)
    except IllegalCallError:
        os._exit(7)
    os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert operators.Relu(x).tolist() == [0, 2]
sys.exit(code - 7)
"""


@pytest.mark.posix("Windows has no fork")
def test_a_forked_child_compiles_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_table_of_directml_names_operators_that_there_are() -> None:
    page = (ROOT / "docs" / "how-to" / "operators.md").read_text().split("### Operators")[1]
    rows = [line.split(" | ")[1] for line in page.splitlines() if line.startswith("| `")]
    names = set(re.findall(r"`([A-Z]\w+)`", " ".join(rows)))
    assert len(names) > 40
    assert names <= set(dir(operators))


@pytest.mark.exhaustive
def test_a_sample_of_the_conformance_suite() -> None:
    """`python tests/tools/operators_conformance.py` takes all of it."""
    total, names, passed, lost, _ = operators_conformance.judge(step=7)
    assert lost == {}
    assert total > 180
    assert len(passed) > names * 0.8
