"""Evaluator: batches of columns in and out, in this process and in others."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from helpers.models import data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.reference import run_first
from winml_py import (
    BitmapPixelFormat,
    CorruptModelError,
    ImageContract,
    InvalidArgumentError,
    InvalidBindingError,
    InvalidDeviceError,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    SoftwareBitmap,
)
from winml_py.distributed import Evaluator
from winml_py.distributed.evaluator import MAX_SESSIONS, SESSIONS
from winml_py.testing import FakeDevice

DIGITS, BATCHES, EDGES = (str(MODELS / name) for name in ("digits.onnx", "digits_batch.onnx", "edges.onnx"))
SEVEN = str(PICTURES / "seven.png")


@pytest.fixture
def images() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((5, 1, 28, 28), np.float32)


@pytest.fixture
def scores() -> np.ndarray[Any, Any]:
    """What the digit model makes of seven.png, which Pillow has scaled."""
    with Image.open(SEVEN) as image:
        pixels = np.asarray(image.resize((28, 28), Image.Resampling.BICUBIC), np.float32)
    return run_first(DIGITS, pixels[None, None] / 255)[0]


@pytest.mark.parametrize("batch", [1, 3])
def test_rows_of_arrays_give_what_the_runtime_gives(images: np.ndarray[Any, Any], batch: int) -> None:
    evaluate = Evaluator(BATCHES, batch=batch)
    answered = evaluate({"id": np.arange(5), "image": images})
    assert list(answered) == ["id", "image", "probabilities", "error"]
    np.testing.assert_array_equal(answered["id"], np.arange(5))
    np.testing.assert_allclose(answered["probabilities"], run_first(BATCHES, images), atol=1e-6)
    assert answered["error"].tolist() == [None] * 5


def test_pictures_come_as_paths_bytes_and_pixels(scores: np.ndarray[Any, Any]) -> None:
    with Image.open(SEVEN) as image:
        pixels = np.asarray(image.convert("RGB"))
    cells = np.empty(4, object)
    cells[:3] = [SEVEN, Path(SEVEN).read_bytes(), Path(SEVEN)]
    cells[3] = pixels
    answered = Evaluator(DIGITS)({"image": cells})
    for probabilities in answered["probabilities"]:
        np.testing.assert_allclose(probabilities, scores, atol=1e-2)
    assert answered["error"].tolist() == [None] * 4


def test_a_row_that_fails_does_not_end_the_others(tmp_path: Path, scores: np.ndarray[Any, Any]) -> None:
    (tmp_path / "text.png").write_text("no picture")
    paths = [SEVEN, str(tmp_path / "text.png"), SEVEN, str(tmp_path), str(tmp_path / "*.png"), "missing.mp4", None]
    answered = Evaluator(DIGITS, columns={"image": "path"})({"path": np.array(paths, object)})
    assert answered["probabilities"].shape == (7, 10)
    for row in (0, 2):
        np.testing.assert_allclose(answered["probabilities"][row], scores, atol=1e-2)
    errors = answered["error"].tolist()
    assert [error is None for error in errors] == [True, False, True, False, False, False, False]
    assert np.isnan(answered["probabilities"][[1, 3, 4, 5, 6]]).all()
    assert errors[1].startswith("PictureError: ")
    assert "text.png" in errors[1]
    assert "The row has no value for image" in errors[6]


def two_outputs(tmp_path: Path) -> str:
    """A scalar, texts and a list for each row of numbers."""
    nodes = [
        helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
        helper.make_node("ReduceSum", ["x"], ["sum"], axes=[1], keepdims=0),
        helper.make_node("Greater", ["x", "half"], ["large"]),
        helper.make_node("Identity", ["word"], ["same"]),
    ]
    inputs = [tensor("x", ["n", 3]), tensor("word", [1], TensorProto.STRING)]
    outputs = [
        tensor("label", ["n"], TensorProto.INT64),
        tensor("sum", ["n"]),
        tensor("large", ["n", 3], TensorProto.BOOL),
        tensor("same", [1], TensorProto.STRING),
    ]
    path = tmp_path / "table.onnx"
    path.write_bytes(data(nodes, inputs, outputs, {"half": np.float32(0.5)}, opset=12))
    return str(path)


TABLE = {"a": [0.25, 0.5, 2.0], "b": [1.0, 0.25, 1.0], "c": [0.0, 0.75, 1.0], "w": ["x", "é", "z"]}
COLUMNS = {"x": ["a", "b", "c"], "word": "w"}


def test_columns_of_numbers_become_a_row(tmp_path: Path) -> None:
    evaluate = Evaluator(two_outputs(tmp_path), columns=COLUMNS)
    answered = evaluate({name: np.array(column) for name, column in TABLE.items()})
    assert list(answered) == [*TABLE, "label", "sum", "large", "same", "error"]
    assert answered["label"].tolist() == [1, 2, 0]
    assert answered["label"].dtype == np.int64
    assert answered["sum"].tolist() == [1.25, 1.5, 4.0]
    assert answered["large"].tolist() == [[False, True, False], [False, False, True], [True, True, True]]
    assert answered["same"].tolist() == ["x", "é", "z"]
    nothing = Evaluator(two_outputs(tmp_path), columns=COLUMNS, outputs=[])
    assert list(nothing({name: np.array(column) for name, column in TABLE.items()})) == [*TABLE, "error"]


def test_frames_of_pandas_keep_types_and_index(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    evaluate = Evaluator(two_outputs(tmp_path), columns=COLUMNS)
    frame = pandas.DataFrame(TABLE, index=[7, 8, 9])
    answered = evaluate(frame)
    assert answered.index.tolist() == [7, 8, 9]
    assert answered["label"].tolist() == [1, 2, 0]
    assert answered["large"][8].tolist() == [False, False, True]
    frame.loc[8, "w"] = None
    failed = evaluate(frame)
    assert failed["label"].tolist() == [1, pandas.NA, 0]
    assert failed["sum"].isna().tolist() == [False, True, False]
    assert failed["error"].notna().tolist() == [False, True, False]
    empty = evaluate(frame.head(0))
    assert empty.dtypes.tolist() == failed.dtypes.tolist() == answered.dtypes.tolist()


def test_maps_and_sequences_are_columns() -> None:
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 5])
    value = helper.make_value_info("y", helper.make_sequence_type_proto(kind))
    evaluate = Evaluator(data([node], [tensor("x", [1, 2])], [value], domains={"ai.onnx.ml": 3}))
    rows = {"x": np.float32([[0.25, 0.75], [0.5, 0.5]])}
    assert evaluate(rows)["y"].tolist() == [[{3: 0.25, 5: 0.75}], [{3: 0.5, 5: 0.5}]]


def test_a_picture_comes_out_as_a_png_that_the_next_model_takes(cat: Path) -> None:
    evaluate = Evaluator(EDGES)
    answered = evaluate({"image": [str(cat)]})
    (name,) = {*answered} - {"image", "error"}
    assert isinstance(answered[name][0], bytes)
    again = evaluate({"image": [answered[name][0]]})
    assert again["error"].tolist() == [None]
    with Image.open(cat) as image:
        assert SoftwareBitmap.load(again[name][0]).pixel_width == image.width


def test_a_contract_says_how_pictures_become_a_tensor(images: np.ndarray[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "plain.onnx"
    nodes = [helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1, 2, 3], keepdims=0)]
    path.write_bytes(data(nodes, [tensor("x", [1, 1, 28, 28])], [tensor("mean", [1])], opset=12))
    model = LearningModel.load(path)
    model.contracts["x"] = ImageContract(BitmapPixelFormat.GRAY8, mean=(100,), std=(2,))
    for shape in ((2, 28, 28), (2, 28, 28, 1)):
        answered = Evaluator(model)({"x": np.full(shape, 150, np.uint8)})
        assert answered["mean"].tolist() == [25, 25]


def test_what_cannot_be_right_is_refused(tmp_path: Path, images: np.ndarray[Any, Any]) -> None:
    ends = [tensor("x", [1, 2])], [tensor("error", [1, 2])]
    named_error = data([helper.make_node("Neg", ["x"], ["error"])], *ends)
    for wrong, words in [
        (lambda: Evaluator(DIGITS, outputs=["probability"]), "no output 'probability'.*Did you mean"),
        (lambda: Evaluator(DIGITS, outputs="probabilities"), "Expected a list, got str"),
        (lambda: Evaluator(DIGITS, columns="image"), "Expected a Mapping, got str"),  # type: ignore[arg-type]
        (lambda: Evaluator(named_error), "has an output 'error'"),
        (lambda: Evaluator(DIGITS, columns={"picture": "a"}), "no input 'picture'"),
        (lambda: Evaluator(DIGITS, columns={"image": 3}), r'got int\. Pass columns={"image": "path"}'),  # type: ignore[dict-item]
        (lambda: Evaluator(DIGITS, batch=0), "batch"),
        (lambda: Evaluator(DIGITS)({"a": [], "b": []}), "needs the column 'image'"),
        (lambda: Evaluator(DIGITS)({"image": images, "probabilities": images}), "has the name of an output"),
        (lambda: Evaluator(DIGITS)({"image": images, "error": images}), "has the name of an output"),
        (lambda: Evaluator(DIGITS)([1, 2]), "Expected a dict of arrays"),
        (lambda: Evaluator(DIGITS, device=3), "device|cpu"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            wrong()
    with pytest.raises(InvalidDeviceError):
        Evaluator(DIGITS, device="no such device")({"image": images})


def test_numbers_that_do_not_fit_are_errors_of_their_row(tmp_path: Path) -> None:
    path = tmp_path / "whole.onnx"
    whole = [tensor(name, ["n", 2], TensorProto.INT32) for name in "xy"]
    path.write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], whole[:1], whole[1:]))
    evaluate = Evaluator(path)
    answered = evaluate({"x": np.float64([[1, 2], [1.5, 2], [np.nan, 2]])})
    assert answered["y"].tolist() == [[-1, -2], [0, 0], [0, 0]]
    assert "takes Int32" in answered["error"][1]
    assert "takes Int32" in answered["error"][2]
    assert evaluate({"x": np.array([[1, 2**40]])})["error"][0] is not None
    for unfit in ([[1, 2, 3]], [["a", "b"]]):
        assert "does not fit x, which takes Int32" in evaluate({"x": unfit})["error"][0]
    path.write_bytes(unary("Neg", (1, 2), TensorProto.FLOAT16))
    assert "takes Float16" in Evaluator(path)({"x": np.float64([[1, 1e6]])})["error"][0]


@pytest.mark.parametrize(
    ("kind", "table", "expected"),
    [
        (TensorProto.INT64, {"a": np.array([9007199254740993]), "b": np.array([5.0])}, [9007199254740993, 5]),
        (TensorProto.INT64, {"a": np.array([9007199254740993], np.uint64), "b": [5]}, [9007199254740993, 5]),
        (TensorProto.FLOAT, {"a": [None], "b": [5]}, [np.nan, 5]),
        (TensorProto.STRING, {"a": ["bob"], "b": [np.nan]}, "takes String.*got bob, nan. Convert the column"),
        (TensorProto.FLOAT, {"a": np.array(["2020-01-01"], "M8[D]"), "b": [1]}, "got 2020-01-01, 1"),
        (TensorProto.FLOAT, {"a": np.array([3 + 2j]), "b": [4.0]}, "got .3.2j., 4.0"),
        (TensorProto.FLOAT, {"a": ["3"], "b": [4.0]}, "got 3, 4.0"),
    ],
)
def test_columns_become_a_row_as_those_of_a_table_do(kind: int, table: Any, expected: Any) -> None:
    frame = pytest.importorskip("pandas").DataFrame(table)
    model = LearningModel.load(unary("Identity", ("n", 2), kind))
    answered = Evaluator(model, columns={"x": ["a", "b"]})(table)
    with LearningModelSession(model) as session:
        if isinstance(expected, str):
            assert re.search(expected, answered["error"][0])
            with pytest.raises(InvalidBindingError):
                session.evaluate_features(frame)
        else:
            np.testing.assert_array_equal(answered["y"], [expected])
            np.testing.assert_array_equal(session.evaluate_features(frame)["y"].to_numpy(), [expected])


def test_dimensions_in_another_order_are_not_scrambled(tmp_path: Path) -> None:
    """Rows of height, width, channels have as many numbers as the input, which wants the channels first."""
    path, ends = tmp_path / "negate.onnx", [tensor(name, [1, 3, 4, 5]) for name in "xy"]
    path.write_bytes(data([helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:]))
    pixels = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)
    for row in (pixels[0], pixels.reshape(-1), pixels):
        answered = Evaluator(str(path))({"x": row[None]})
        assert answered["error"].tolist() == [None]
        np.testing.assert_array_equal(answered["y"], -pixels)
    (error,) = Evaluator(str(path))({"x": pixels.transpose(0, 2, 3, 1)})["error"]
    assert error.startswith("SizeMismatchError: ")


def test_an_output_that_counts_something_else_keeps_its_first_size(tmp_path: Path) -> None:
    path = tmp_path / "found.onnx"
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Squeeze", ["places"], ["found"], axes=[0]),
    ]
    path.write_bytes(data(nodes, [tensor("x", [4])], [tensor("found", ["many"], TensorProto.INT64)], opset=12))
    answered = Evaluator(path)({"x": np.float32([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]])})
    assert [cell.tolist() for cell in answered["found"]] == [[0, 3], [1], []]


def pid_and_answer(evaluate: Evaluator, image: np.ndarray[Any, Any]) -> tuple[int, Any]:
    return os.getpid(), evaluate({"image": image})["probabilities"]


@pytest.mark.parametrize("model", [Path(BATCHES), Path(BATCHES).read_bytes()], ids=["path", "bytes"])
def test_each_process_opens_its_own_session(model: Any, images: np.ndarray[Any, Any]) -> None:
    evaluate = Evaluator(model)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context) as pool:
        answers = list(pool.map(pid_and_answer, [evaluate] * 4, [images[:2]] * 4, timeout=120))
    assert os.getpid() not in {process for process, _ in answers}
    for _, probabilities in answers:
        np.testing.assert_allclose(probabilities, run_first(BATCHES, images[:2]), atol=1e-6)


def test_copies_in_one_process_use_one_session(images: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate, opened = Evaluator(BATCHES), []
    original = Evaluator._open_session
    monkeypatch.setattr(Evaluator, "_open_session", lambda self: opened.append(self) or original(self))
    pickled = pickle.dumps(evaluate)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: pickle.loads(pickled)({"image": images}), range(8)))
    assert len(opened) == 1
    evaluate({"image": images[:0]})
    evaluate.close()
    evaluate.close()
    pickle.loads(pickled)({"image": images})
    assert len(opened) == 2


def test_only_the_last_sessions_are_kept(images: np.ndarray[Any, Any]) -> None:
    evaluators = [Evaluator(BATCHES) for _ in range(MAX_SESSIONS + 2)]
    for evaluate in evaluators:
        evaluate({"image": images})
    assert list(SESSIONS._sessions) == [evaluate._name for evaluate in evaluators[-MAX_SESSIONS:]]
    for evaluate in evaluators:
        evaluate.close()
    assert not SESSIONS._sessions


def test_threads_are_those_that_the_engine_grants(
    images: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from winml_py import LearningModelSession
    from winml_py.distributed import evaluator

    seen: list[tuple[int, int, bool]] = []
    original = LearningModelSession.evaluate_many

    def evaluate_and_record(self: LearningModelSession, *items: Any, concurrency: int, **options: Any) -> Any:
        seen.append((concurrency, self.get_intra_op_num_threads(), self.get_intra_op_thread_spinning()))
        return original(self, *items, concurrency=concurrency, **options)

    monkeypatch.setattr(LearningModelSession, "evaluate_many", evaluate_and_record)
    monkeypatch.setattr(evaluator, "count_usable_cores", lambda: 8)
    options = LearningModelSessionOptions()
    options.intra_op_num_threads, options.close_model_on_session_creation = 5, True
    options.batch_size_override = 0
    evaluate = Evaluator(BATCHES, options=options)
    for variable in ("", "3", "64", "0", "words"):
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
        evaluate({"image": images})
    assert seen == [(threads, 1, False) for threads in (1, 3, 8, 1, 1)]
    assert options.intra_op_num_threads == 5
    pickle.dumps(evaluate)  # the model is not disposed of


def fakes(inputs: Any) -> dict[str, Any]:
    return {"probabilities": np.full((1, 10), inputs["image"].sum(), np.float32)}


def test_a_device_of_the_callers_goes_along(images: np.ndarray[Any, Any]) -> None:
    evaluate = pickle.loads(pickle.dumps(Evaluator(DIGITS, device=FakeDevice(fakes))))
    answered = evaluate({"image": images})
    np.testing.assert_allclose(answered["probabilities"][:, 3], images.sum((1, 2, 3)), rtol=1e-5)


def test_a_model_that_changed_on_the_way_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "digits.onnx"
    path.write_bytes(Path(DIGITS).read_bytes())
    pickled = pickle.dumps(Evaluator(path))
    path.write_bytes(Path(BATCHES).read_bytes())
    with pytest.raises(CorruptModelError, match="has changed since"):
        pickle.loads(pickled)
