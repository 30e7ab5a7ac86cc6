"""KServe's protocol, as a client that others wrote speaks it: tritonclient, against the running command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from helpers.models import INT64, STRING, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.serving import Service, run_service
from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, NotSupportedError, serve
from winml_py.errors import InvalidArgumentError
from winml_py.serve.protocol import read_request

triton = pytest.importorskip("tritonclient.http", reason="the conformance test needs tritonclient[http]")
SEVEN = (PICTURES / "seven.png").read_bytes()


KEYS: dict[str, Any] = {"strings": ["no", "grün", "a yes"], "int64s": [7, 3, -1 << 40]}
"""The classes of classifiers as scikit-learn's converter writes them, by their attribute."""


def make_maps(key: str) -> Any:
    kind = STRING if key == "strings" else INT64
    return helper.make_sequence_type_proto(
        helper.make_map_type_proto(kind, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    )


def classify(key: str, keys: Any = ()) -> bytes:
    """A classifier: x -> label, probabilities."""
    names = {f"classlabels_{key}": list(keys or KEYS[key])}
    nodes = [
        helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
        helper.make_node("ZipMap", ["x"], ["probabilities"], domain="ai.onnx.ml", **names),
    ]
    outputs = [tensor("label", ["n"], INT64), helper.make_value_info("probabilities", make_maps(key))]
    return data(nodes, [tensor("x", ["n", 3])], outputs, domains={"ai.onnx.ml": 1})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "words.onnx").write_bytes(unary(shape=["n", 2], element=STRING))
    (folder / "pages.onnx").write_bytes(unary(shape=["n", 1, 1, 2], element=STRING))
    (folder / "halves.onnx").write_bytes(unary("Neg", ["n"], TensorProto.FLOAT16))
    (folder / "logs.onnx").write_bytes(unary("Log", ["n"]))
    ends = [tensor("x", ["n"], INT64), tensor("y", ["n"], TensorProto.BOOL)]
    (folder / "isnot.onnx").write_bytes(
        data([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BOOL)], ends[:1], ends[1:])
    )
    for key in ("strings", "int64s"):
        (folder / f"{key}.onnx").write_bytes(classify(key))
    with run_service(folder / "log", MODELS / "digits.onnx", MODELS / "sharpen.onnx", folder) as made:
        yield made


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{service.port}") as made:
        yield made


def given(name: str, array: np.ndarray[Any, Any], is_binary: bool = True) -> Any:
    kind = {"S": "BYTES", "O": "BYTES"}.get(array.dtype.kind) or triton.np_to_triton_dtype(array.dtype)
    made = triton.InferInput(name, list(array.shape), kind)
    return made.set_data_from_numpy(array, binary_data=is_binary)


def answer(client: Any, model: str, *inputs: Any, is_binary: bool = True) -> dict[str, np.ndarray[Any, Any]]:
    outputs = [one["name"] for one in client.get_model_metadata(model)["outputs"]]
    wanted = [triton.InferRequestedOutput(name, binary_data=is_binary) for name in outputs]
    result = client.infer(model, list(inputs), outputs=wanted, request_id="mine")
    assert result.get_response()["id"] == "mine"
    return {name: result.as_numpy(name) for name in outputs}


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    facts = client.get_model_metadata("digits")
    assert (facts["name"], facts["versions"], facts["platform"]) == ("digits", ["1"], "onnx")
    assert facts["outputs"] == [{"name": "probabilities", "datatype": "FP32", "shape": [1, 10]}]
    (image,) = facts["inputs"]
    assert (image["name"], image["datatype"], image["shape"]) == ("image", "FP32", [1, 1, 28, 28])
    assert image["parameters"]["picture"] == "GRAY8, zero_to_one"
    assert "BYTES of shape [1]: a JPEG, PNG or WebP file" in image["parameters"]["accepts"]
    assert [one["datatype"] for one in client.get_model_metadata("isnot")["outputs"]] == ["BOOL"]


@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("answers_binary", [True, False])
def test_tensors_both_ways(client: Any, is_binary: bool, answers_binary: bool) -> None:
    def sent(model: str, name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        (found,) = answer(client, model, given(name, array, is_binary), is_binary=answers_binary).values()
        return found

    pixels = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    with LearningModelSession(LearningModel.load(MODELS / "digits.onnx")) as session:
        expected = session.evaluate_features({"image": pixels}).outputs["probabilities"].to_numpy()
    assert np.allclose(sent("digits", "image", pixels), expected, atol=1e-6)
    words = np.array([["a", "grün"], ["", "b" * 300]], object)
    as_sent = [[one.encode() for one in row] for row in words] if answers_binary else words.tolist()
    assert sent("words", "x", words).tolist() == as_sent
    assert sent("pages", "x", words[:, None, None]).reshape(2, 2).tolist() == as_sent
    assert sent("isnot", "x", np.array([0, -1, 1 << 40])).tolist() == [False, True, True]
    assert sent("halves", "x", np.array([0.5, -2], np.float16)).tolist() == [-0.5, 2]
    logs = sent("logs", "x", np.array([0, 1, -1], np.float32))
    assert np.array_equal(logs, np.array([-np.inf, 0, np.nan], np.float32), equal_nan=True)


@pytest.mark.parametrize("model", KEYS)
@pytest.mark.parametrize("is_binary", [True, False])
def test_maps_of_classes_are_columns(client: Any, model: str, is_binary: bool) -> None:
    scores = np.random.default_rng(0).random((4, 3), np.float32)
    found = answer(client, model, given("x", scores), is_binary=is_binary)
    np.testing.assert_array_equal(found["probabilities"], scores)
    np.testing.assert_array_equal(found["label"], scores.argmax(1))
    label, facts = client.get_model_metadata(model)["outputs"]
    assert label == {"name": "label", "datatype": "INT64", "shape": [-1]}
    assert facts["parameters"] == {"classes": KEYS[model]}
    assert (facts["name"], facts["datatype"], facts["shape"]) == ("probabilities", "FP32", [-1, 3])
    with LearningModelSession(LearningModel.load(classify(model))) as session:
        rows = session.evaluate_features({"x": scores}).outputs["probabilities"]
    assert [[row[key] for key in KEYS[model]] for row in rows] == scores.tolist()


def make_identity(kind: Any) -> bytes:
    ends = [helper.make_value_info(name, kind) for name in "xy"]
    return data([helper.make_node("Identity", ["x"], ["y"])], ends[:1], ends[1:])


TENSORS = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [None]))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (classify("int64s", [1, 1, 2]), "probabilities is: list of map of Int64 to Float"),
        (make_identity(make_maps("strings")), "x is: list of map of String to Float"),
        (make_identity(TENSORS), "x is: list of Float"),
        (
            data(
                [helper.make_node("SplitToSequence", ["x"], ["y"])],
                [tensor("x", [2])],
                [helper.make_value_info("y", TENSORS)],
            ),
            "y is: list of Float",
        ),
        (unary(element=TensorProto.BFLOAT16), "x is: bfloat16"),
    ],
)
def test_what_no_tensor_can_say_is_told_before_the_model_is_served(model: bytes, words: str) -> None:
    with pytest.raises(NotSupportedError, match=f"KServe's protocol has only tensors, but the model variable {words}"):
        serve.app({"m": LearningModel.load(model)})


def test_an_output_without_a_type_is_refused_with_the_way_to_add_it() -> None:
    model = onnx.load_model_from_string(unary("Neg", [1, 3]))
    model.graph.output[0].ClearField("type")
    with pytest.raises(NotSupportedError, match=r"type of the output y.*infer_shapes"):
        serve.app({"m": LearningModel.load(model.SerializeToString())})
    typed = onnx.shape_inference.infer_shapes(model)
    serve.app({"m": LearningModel.load(typed.SerializeToString())})


def test_an_output_that_is_a_picture_is_not_rounded(client: Any) -> None:
    pixels = np.random.default_rng(0).random((1, 3, 8, 8), np.float32) * 255
    (found,) = answer(
        client, "sharpen", given(client.get_model_metadata("sharpen")["inputs"][0]["name"], pixels)
    ).values()
    assert found.dtype == np.float32
    assert (found != np.rint(found)).any()


def test_a_picture(client: Any) -> None:
    """As the bytes of a file, and as pixels: the same as in a program."""
    with LearningModelSession(LearningModel.load(MODELS / "digits.onnx")) as session:
        picture = ImageFeatureValue.load(SEVEN)
        expected = session.evaluate_features({"image": picture}).outputs["probabilities"].to_numpy()
        pixels = np.asarray(picture.to_pil().convert("RGB"))
    file = np.array([SEVEN], object)
    assert np.array_equal(answer(client, "digits", given("image", file))["probabilities"], expected)
    assert np.allclose(answer(client, "digits", given("image", pixels))["probabilities"], expected, atol=0.02)


@pytest.mark.parametrize(
    ("model", "array", "status", "words"),
    [
        ("nothing", np.zeros(1, np.float32), "404", "There is no model 'nothing'. Models: digits, sharpen"),
        ("digits", np.zeros(3, np.float32), "400", "image"),
        ("digits", np.zeros((1, 1, 28, 28), np.int32), "400", "image"),
        ("digits", np.array([b"no picture"], object), "415", "is not a picture"),
        ("digits", np.array([SEVEN, SEVEN], object), "400", "Expected a batch of 1, got 2"),
        ("digits", np.zeros((4, 4, 4), np.uint8), "400", "height x width x 3"),
        ("words", np.array([[b"\xff", b""]], object), "400", "codec can't decode"),
    ],
)
def test_errors(client: Any, model: str, array: np.ndarray[Any, Any], status: str, words: str) -> None:
    with pytest.raises(triton.InferenceServerException) as caught:
        client.infer(model, [given("image" if model == "digits" else "x", array)])
    assert caught.value.status() == status
    assert words in caught.value.message()


def test_outputs_and_inputs_that_are_not_there(client: Any) -> None:
    zeros = given("image", np.zeros((1, 1, 28, 28), np.float32))
    with pytest.raises(triton.InferenceServerException, match="There is no output 'nothing'"):
        client.infer("digits", [zeros], outputs=[triton.InferRequestedOutput("nothing")])
    with pytest.raises(triton.InferenceServerException, match="image"):
        client.infer("digits", [])
    with pytest.raises(triton.InferenceServerException, match="There is no input 'IMAGE'; inputs: image"):
        client.infer("digits", [zeros, given("IMAGE", np.zeros((1, 1, 28, 28), np.float32))])
    with pytest.raises(triton.InferenceServerException, match="Compressed bodies are not supported"):
        client.infer("digits", [zeros], request_compression_algorithm="gzip")
    with pytest.raises(triton.InferenceServerException, match="Not Found"):
        client.get_model_metadata("digits", "2")


def whole(**changes: object) -> bytes:
    one = {"name": "x", "datatype": "INT8", "shape": [2], "data": [1, 2]} | changes
    return json.dumps({"inputs": [{key: value for key, value in one.items() if value is not None}]}).encode()


@pytest.mark.parametrize(
    ("body", "header", "words"),
    [
        (b"{", None, "is not JSON"),
        (b"[" * 100_000, None, "is not JSON"),
        (b"[]", None, 'Expected a JSON object with "inputs"'),
        (b'{"inputs": [5]}', None, 'Expected a JSON object with "inputs"'),
        (b"{}", "-1", "Expected at most 2, got '-1'"),
        (b"{}", "9" * 5000, "Expected at most 2, got '999"),
        (b"{}....", "2", "4 bytes follow"),
        (whole(name=5), None, "each with a name"),
        (whole(shape=[-1]), None, "a list of sizes, got [-1]"),
        (whole(shape=[1 << 70]), None, "not INT8 of shape"),
        (whole(datatype="INT9"), None, "no datatype INT9"),
        (whole(data=None), None, "expected a list, got NoneType"),
        (whole(data=[1, 300]), None, "300 out of bounds for int8"),
        (whole(data=[1, 1.5]), None, "not all elements are INT8"),
        (whole(data=[[1], [1, 2]]), None, "not INT8 of shape"),
        (whole(datatype="FP32", data=[1, None]), None, "not all elements are FP32"),
        *(
            (whole(datatype="FP32", data=[1, text]), None, "not all elements are FP32")
            for text in ("1.5", "1_0", "inf")
        ),
        (whole(datatype="FP32", data=[1, 1e300]), None, "a number is not finite in FP32"),
        (whole(datatype="FP64").replace(b"[1, 2]", b"[1, 1e400]"), None, "a number is not finite in FP64"),
        (whole(datatype="BYTES", data=[None, {"a": 1}]), None, "not all elements are BYTES"),
        (json.dumps({"inputs": json.loads(whole())["inputs"] * 2}).encode(), None, "x: Expected each input once"),
        (whole(data=None, parameters={"binary_data_size": 2}), None, "2 bytes of 0"),
    ],
)
def test_what_is_no_request(body: bytes, header: str | None, words: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_request(body, header)
    assert words in str(caught.value)


def test_floats_that_are_not_finite_are_texts() -> None:
    texts = whole(datatype="FP32", shape=[4], data=[1, "NaN", "Infinity", "-Infinity"])
    np.testing.assert_array_equal(read_request(texts, None)[1]["x"], np.float32([1, np.nan, np.inf, -np.inf]))


def test_the_largest_integers() -> None:
    (values,) = read_request(whole(datatype="UINT64", data=[1, 1 << 63]), None)[1].values()
    assert (values.dtype, values.tolist()) == (np.uint64, [1, 1 << 63])


@pytest.mark.parametrize(
    ("kind", "size", "words"),
    [("INT8", 3, "size 3 into shape"), ("INT32", 3, "multiple of element size"), ("BYTES", 9, "9 bytes follow 0")],
)
def test_bytes_that_do_not_fit(kind: str, size: int, words: str) -> None:
    head = whole(datatype=kind, data=None, parameters={"binary_data_size": size})
    with pytest.raises(InvalidArgumentError, match=words):
        read_request(head + b"\xff" * size, str(len(head)))
