"""What the page is told: the tensor that was bound, where it lies in the picture, the answer, the program for it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from onnx import helper
from PIL import Image

from helpers.models import INT64, STRING, data, tensor, unary
from helpers.pages import Page, serve_page
from helpers.paths import MODELS, PICTURES
from helpers.processes import describe_signal, is_alive, send_signal
from helpers.waiting import wait_until
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    TensorKind,
    TensorLayout,
    read_contract,
)
from winml_py.scaling import LongestSide, ShortestSide, Stretch
from winml_py.view.app import list_contract_fields
from winml_py.view.workbench import parse_contract

ORDERS = {"Rgb8": (0, 1, 2), "Bgr8": (2, 1, 0)}
RANGES = {"NominalRange_0_255": (1, 0), "Normalized_0_1": (255, 0), "Normalized_1_1": (127.5, 1)}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with serve_page() as made:
        yield made


def opened(page: Page, model: Path | bytes, name: str = "model.onnx") -> str:
    """The model, opened; a file again only if it was dropped since, for its session is a process."""
    if isinstance(model, bytes):
        return str(page.post(f"api/models?name={name}", model)["id"])
    if page.known.get(model) not in page.bench.models._items:
        page.known[model] = str(page.post(f"api/models?name={model.name}", model.read_bytes())["id"])
    return page.known[model]


def bound_array(page: Page, facts: Any, name: str = "image") -> np.ndarray:
    """The tensor that the page keeps of an evaluation."""
    return page.bench.evaluations.find(facts["id"]).tensors[name]


def picture_of(page: Page, path: Path) -> str:
    return str(page.post(f"api/pictures?name={path.name}", path.read_bytes())["id"])


def evaluated(page: Page, model: str, picture: str, words: dict[str, str] | None = None, name: str = "image") -> Any:
    return page.post("api/evaluate", {"model": model, "inputs": {name: {"picture": picture, "contract": words}}})


def tensor_of(shape: tuple[int, ...], picture: Path, contract: ImageContract) -> np.ndarray:
    """What a model gets of a picture."""
    binding = LearningModelBinding(LearningModelSession(LearningModel.load(unary(shape=shape))))
    binding.bind("x", ImageFeatureValue.load(picture), {"ImageContract": contract})
    return binding._session.evaluate(binding).outputs["y"].to_numpy()


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


CONTRACTS = {
    "as shapes has it": ImageContract.yolo(),
    "imagenet": ImageContract.imagenet(),
    "inception, stretched": ImageContract(
        BitmapPixelFormat.RGB8, LearningModelPixelRange.MINUS_ONE_TO_ONE, scaling=Stretch()
    ),
    "bytes of bgr": ImageContract(BitmapPixelFormat.BGR8),
    "mean of bgr": ImageContract(BitmapPixelFormat.BGR8, mean=(104, 117, 123)),
    "shorter side, cropped": ImageContract(BitmapPixelFormat.RGB8, scaling=ShortestSide(150)),
    "longer side, padded": ImageContract(BitmapPixelFormat.RGB8, scaling=LongestSide(100), pad=(9, 99, 199)),
}


class TestTheTensor:
    @pytest.mark.parametrize("name", CONTRACTS)
    def test_it_is_what_was_bound(self, page: Page, name: str, cat: Path) -> None:
        """The array that the page gives, its numbers, and its picture, beside those of a binding of one's own."""
        contract = CONTRACTS[name]
        facts = evaluated(page, opened(page, MODELS / "shapes.onnx"), picture_of(page, cat), contract.to_metadata())
        array = bound_array(page, facts)
        bound = tensor_of(array.shape, cat, contract)
        np.testing.assert_array_equal(array, bound)
        told = facts["tensors"]["image"]
        assert (told["min"], told["max"]) == (float(bound.min()), float(bound.max()))
        assert told["mean"] == pytest.approx(bound.mean(dtype=np.float64))
        assert [one["mean"] for one in told["channels"]] == pytest.approx(
            bound[0].mean((1, 2), dtype=np.float64).tolist()
        )
        # The picture: range, mean and std undone, by a formula of its own.
        words = contract.to_metadata()
        scale, shift = RANGES[words["Image.NominalPixelRange"]]
        mean, std = np.array(contract.mean or (0, 0, 0)), np.array(contract.std or (1, 1, 1))
        levels = np.rint(((bound[0].astype(np.float64).transpose(1, 2, 0) * std + mean) + shift) * scale).clip(0, 255)
        own = levels[..., ORDERS[words["Image.BitmapPixelFormat"]]]
        shown = pixels(page.get(f"api/tensors/{facts['id']}?input=image&read=undone"))
        assert np.abs(shown[..., :3] - own).max() <= 1  # float32 and float64 may round a half to either side
        assert (shown[..., :3] != own).mean() < 1e-3

    def test_as_numbers(self, page: Page, cat: Path) -> None:
        """The least black and the highest white; the first channel red, though it holds blue."""
        contract = CONTRACTS["mean of bgr"]
        facts = evaluated(page, opened(page, MODELS / "shapes.onnx"), picture_of(page, cat), contract.to_metadata())
        bound = bound_array(page, facts).astype(np.float64)[0]
        expected = np.rint((bound - bound.min()) / (bound.max() - bound.min()) * 255).transpose(1, 2, 0)
        shown = pixels(page.get(f"api/tensors/{facts['id']}?input=image&read=numbers"))
        np.testing.assert_array_equal(shown, expected)

    def test_channels_last_and_bytes(self, page: Page, cat: Path) -> None:
        """A model of uint8, whose contract the page states."""
        node = helper.make_node("Identity", ["x"], ["y"])
        ends = [tensor(end, [1, 40, 60, 3], 2) for end in "xy"]
        model = data([node], ends[:1], ends[1:])
        contract = ImageContract(BitmapPixelFormat.RGB8, layout=TensorLayout.NHWC, scaling=Stretch())
        contract = replace(contract, tensor_kind=TensorKind.UINT8)
        facts = evaluated(page, opened(page, model), picture_of(page, cat), contract.to_metadata(), "x")
        bound = bound_array(page, facts, "x")
        assert (bound.shape, bound.dtype) == ((1, 40, 60, 3), np.uint8)
        shown = pixels(page.get(f"api/tensors/{facts['id']}?input=x&read=undone"))
        np.testing.assert_array_equal(shown[..., :3], bound[0])

    @pytest.mark.parametrize("query", ["input=other&read=numbers", "input=image&read=other", ""])
    def test_no_such_picture(self, page: Page, query: str, seven: Path) -> None:
        facts = evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, seven))
        assert page.ask(f"/{page.token}/api/tensors/{facts['id']}?{query}")[0] in (404, 422)
        assert page.ask(f"/{page.token}/api/tensors/nothing?input=image&read=numbers")[0] == 404


class TestThePlacement:
    def test_a_picture_that_its_camera_turned(self, page: Page, tmp_path: Path) -> None:
        """Upright: what is drawn is on the picture as it is shown."""
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.new("RGB", (300, 100), "red").save(tmp_path / "turned.jpg", exif=exif)
        picture = picture_of(page, tmp_path / "turned.jpg")
        facts = evaluated(page, opened(page, MODELS / "digits.onnx"), picture)
        assert facts["placements"]["image"]["picture"] == [100, 300]
        assert facts["placements"]["image"]["seen"] == [0, 100, 100, 200]
        assert Image.open(io.BytesIO(page.get(f"api/pictures/{picture}"))).size == (100, 300)


class TestTheAnswer:
    def test_classes(self, page: Page, seven: Path) -> None:
        facts = evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, seven))
        session = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
        best = session.evaluate_features({"image": seven}).top_k(5)
        output = facts["answer"]["outputs"]["probabilities"]
        assert output["are_shares"] is True
        assert [(one["index"], one["value"]) for one in output["top"]] == [
            (one.index, pytest.approx(one.score)) for one in best
        ]
        assert list(facts["times"]) == ["decode", "bind", "evaluate"]
        assert all(value >= 0 for value in facts["times"].values())

    def test_objects_are_drawn(self, page: Page) -> None:
        from winml_py import vision

        path = PICTURES / "shapes.png"
        facts = evaluated(page, opened(page, MODELS / "shapes.onnx"), picture_of(page, path))
        result = LearningModelSession(LearningModel.load(MODELS / "shapes.onnx")).evaluate_features({"image": path})
        found = vision.detections(result)
        assert [one["label"] for one in facts["answer"]["objects"]] == [one.label for one in found]
        drawn = pixels(page.get(f"api/answers/{facts['id']}"))
        np.testing.assert_array_equal(drawn, np.asarray(found.draw(path)))

    def test_regions_are_drawn(self, page: Page) -> None:
        facts = evaluated(page, opened(page, MODELS / "shapes_mask.onnx"), picture_of(page, PICTURES / "shapes.png"))
        assert sum(one["share"] for one in facts["answer"]["regions"]) == pytest.approx(1)
        assert pixels(page.get(f"api/answers/{facts['id']}")).shape[:2] == (480, 480)

    def test_pictures(self, page: Page, cat: Path) -> None:
        facts = evaluated(page, opened(page, MODELS / "invert.onnx"), picture_of(page, cat))
        session = LearningModelSession(LearningModel.load(MODELS / "invert.onnx"))
        (name,) = facts["answer"]["outputs"]
        expected = next(iter(session.evaluate_features({"image": cat}).outputs.values())).to_pil().convert("RGB")
        shown = pixels(page.get(f"api/answers/{facts['id']}?output={name}"))
        np.testing.assert_array_equal(shown[..., :3], np.asarray(expected))

    def test_numbers_that_are_not_finite(self, page: Page) -> None:
        model = opened(page, unary("Log", [4]))
        facts = page.post("api/evaluate", {"model": model, "inputs": {"x": {"text": "0, 1, -1, 2.718281828"}}})
        assert facts["answer"]["outputs"]["y"]["values"] == ["-Infinity", 0.0, "NaN", pytest.approx(1)]


class TestOtherInputs:
    @pytest.mark.parametrize(
        ("element", "shape", "text", "expected"),
        [
            (1, [2, 3], "1 2 3 4 5 6", [[1, 2, 3], [4, 5, 6]]),
            (1, [2, 3], "[[1, 2, 3], [4, 5, 6.5]]", [[1, 2, 3], [4, 5, 6.5]]),
            (INT64, ["n"], "1, 2, 3", [1, 2, 3]),
            (INT64, [1], "9007199254740993", ["9007199254740993"]),  # as text: browsers would round it
            (9, [2], "[true, false]", [True, False]),
            (STRING, [1], "a word, and another", ["a word, and another"]),
            (STRING, ["n"], '["a", "<b>"]', ["a", "<b>"]),
        ],
    )
    def test_fields(self, page: Page, element: int, shape: list[Any], text: str, expected: list[Any]) -> None:
        model = opened(page, unary("Identity", shape, element))
        facts = page.post("api/evaluate", {"model": model, "inputs": {"x": {"text": text}}})
        assert facts["answer"]["outputs"]["y"]["values"] == np.array(expected, object).reshape(-1).tolist()
        assert facts["contracts"] == {}

    @pytest.mark.parametrize(
        ("element", "text", "words"),
        [
            (1, "one", "Expected only numbers: could not convert string to float: 'one'"),
            (1, "[[1], [2, 3]]", "Expected only numbers"),
            (INT64, "1.5 2", "expected integers"),
            (INT64, "9" * 4000 + " 1", "to 9223372036854775807"),
            (1, "[" * 5000, "Expected only numbers"),
            (1, "1 2 3", "expects Float[2,]"),
        ],
    )
    def test_what_is_no_value(self, page: Page, element: int, text: str, words: str) -> None:
        model = opened(page, unary("Identity", [2], element))
        answer = page.post("api/evaluate", {"model": model, "inputs": {"x": {"text": text}}}, 422)
        assert words in answer["error"]

    def test_values_that_are_made_up(self, page: Page) -> None:
        """The same each time; the program has them."""
        model = opened(page, unary("Identity", [2, 2]))
        answers = [page.post("api/evaluate", {"model": model}) for _ in range(2)]
        values = answers[0]["answer"]["outputs"]["y"]["values"]
        assert answers[1]["answer"]["outputs"]["y"]["values"] == values
        assert np.ptp(values) > 0
        assert repr(np.reshape(values, (2, 2)).tolist()) in answers[0]["code"]

    def test_a_map(self, page: Page) -> None:
        from helpers import winml_models

        model = opened(page, winml_models.dictvectorizer(STRING))
        (name,) = [
            one["name"] for one in page.post("api/models?name=m.onnx", winml_models.dictvectorizer(STRING))["inputs"]
        ]
        facts = page.post("api/evaluate", {"model": model, "inputs": {name: {"text": '{"a": 1.5, "b": 2.5}'}}})
        session = LearningModelSession(LearningModel.load(winml_models.dictvectorizer(STRING)))
        expected = next(iter(session.evaluate_features({name: {"a": 1.5, "b": 2.5}}).outputs.values())).to_numpy()
        (output,) = facts["answer"]["outputs"].values()
        assert output["values"] == expected.reshape(-1).tolist()


class TestTheSwitches:
    def test_every_member_of_a_contract_has_a_switch(self) -> None:
        from dataclasses import fields

        assert len({one["key"] for one in list_contract_fields()}) == len(fields(ImageContract))
        for one in list_contract_fields():
            for choice in one["choices"]:
                gray = {"Image.BitmapPixelFormat": "Gray8"} if one["key"] == "Image.Gray" else {}
                made = parse_contract({**gray, one["key"]: choice})
                assert made.to_metadata().get(one["key"], one["default"]) == choice

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ({"Image.Std": "0"}, "std must not be 0"),
            ({"Image.Mean": "a"}, "an invalid Image.Mean: 'a'"),
            ({"Image.Other": "1"}, "Unknown contract key Image.Other"),
            ({"Image.Mean": 1}, "contract values as text"),
            ([1], "contract values as text"),
        ],
    )
    def test_what_is_no_contract(self, page: Page, words: Any, told: str, seven: Path) -> None:
        model, picture = opened(page, MODELS / "digits.onnx"), picture_of(page, seven)
        asked = {"model": model, "inputs": {"image": {"picture": picture, "contract": words}}}
        assert told in page.post("api/evaluate", asked, 422)["error"]

    def test_configs(self, page: Page) -> None:
        config = {"image_processor_type": "ViTImageProcessor"}
        words = page.post("api/config", config)
        assert parse_contract(words) == read_contract(config)
        config = {"input_size": [3, 288, 288], "crop_pct": 1.0}
        assert parse_contract(page.post("api/config", config)) == read_contract(config)
        assert "No image contract found" in page.post("api/config", {"a": 1}, 422)["error"]
        assert "not valid JSON" in page.post("api/config", b"{", 422)["error"]

    def test_a_size_for_a_model_that_takes_any(self, page: Page, cat: Path) -> None:
        words = ImageContract(size=(48, 64)).to_metadata()
        facts = evaluated(page, opened(page, MODELS / "edges.onnx"), picture_of(page, cat), words)
        assert facts["tensors"]["image"]["shape"] == [1, 3, 48, 64]


class TestTheProgram:
    def run(self, code: str, folder: Path) -> str:
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @pytest.mark.parametrize("name", ["bytes of bgr", "imagenet", "longer side, padded"])
    def test_objects_in_a_fresh_interpreter(self, page: Page, name: str, tmp_path: Path) -> None:
        for path in (MODELS / "shapes.onnx", PICTURES / "shapes.png"):
            shutil.copy(path, tmp_path)
        model = opened(page, MODELS / "shapes.onnx")
        facts = evaluated(page, model, picture_of(page, PICTURES / "shapes.png"), CONTRACTS[name].to_metadata())
        printed = self.run(facts["code"], tmp_path).splitlines()
        boxes = "\n".join(printed)
        assert boxes.count("[") == len(facts["answer"]["objects"])
        for one in facts["answer"]["objects"]:
            assert f"{one['label']} {one['score']}" in boxes

    def test_classes(self, page: Page, tmp_path: Path, seven: Path) -> None:
        for path in (MODELS / "digits.onnx", seven):
            shutil.copy(path, tmp_path)
        facts = evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, seven))
        lines = [line.split() for line in self.run(facts["code"], tmp_path).splitlines()]
        told = facts["answer"]["outputs"]["probabilities"]["top"]
        assert [(int(index), float(score)) for index, score in lines] == [(one["index"], one["value"]) for one in told]

    def test_numbers_and_a_name_that_ends_a_string(self, page: Page, tmp_path: Path) -> None:
        name = "'\"\\\n{}"
        ends = [tensor(name, [3]), tensor("y", [3])]
        model = data([helper.make_node("Neg", [name], ["y"])], ends[:1], ends[1:])
        (tmp_path / "m.onnx").write_bytes(model)
        asked = {"model": opened(page, model, "m.onnx"), "inputs": {name: {"text": "[1.5, 2, NaN]"}}}
        code = page.post("api/evaluate", asked)["code"]
        assert "[3]" in self.run(
            code.replace("print(name, value)", "print(list(value.shape), value.to_numpy())"), tmp_path
        )

    def test_a_large_array_is_a_file(self, page: Page, tmp_path: Path) -> None:
        model = unary("Neg", [50, 50])
        (tmp_path / "m.onnx").write_bytes(model)
        facts = page.post("api/evaluate", {"model": opened(page, model, "m.onnx")})
        np.save(tmp_path / "x.npy", bound_array(page, facts, "x"))
        code = facts["code"].replace("print(name, value)", "print(float(value.to_numpy().min()))")
        assert float(self.run(code, tmp_path)) == facts["answer"]["outputs"]["y"]["min"]


def test_saving_answers_a_copy_and_leaves_nothing_behind(page: Page) -> None:
    model = page.bench.open_model(str(MODELS / "edges.onnx"))
    before = set(os.listdir(page.bench.folder))
    request = {"model": model, "contract": ImageContract.clip().to_metadata(), "inputs": ["image"]}
    status, _, body = page.ask(f"/{page.token}/api/save", json.dumps(request).encode())
    assert status == 200
    assert LearningModel.load(body).input_features[0].contract == ImageContract.clip()
    assert set(os.listdir(page.bench.folder)) == before


class TestHostile:
    def test_names_with_markup_stay_text(self, page: Page) -> None:
        name = '<img src=x onerror="alert(1)">'
        ends = [tensor(name, [3], doc=name), tensor("y", [3])]
        model = data([helper.make_node("Neg", [name], ["y"])], ends[:1], ends[1:], metadata={"Image.Mean": name})
        status, headers, body = page.ask(f"/{page.token}/api/models?name=%3Cb%3E.onnx", model)
        assert (status, headers["content-type"]) == (200, "application/json")
        facts = json.loads(body)
        assert (facts["inputs"][0]["name"], facts["name"]) == (name, "<b>.onnx")

    def test_names_with_folders_are_names(self, page: Page) -> None:
        facts = page.post("api/models?name=../../etc/x.onnx", (MODELS / "digits.onnx").read_bytes())
        assert facts["name"] == "x.onnx"
        assert all(path.parent == Path(page.bench.folder) for path in Path(page.bench.folder).iterdir())

    @pytest.mark.parametrize("content", [b"", b"no model", b"\x08" * 100, b"\x89PNG\r\n\x1a\n"])
    def test_what_is_no_model_and_no_picture(self, page: Page, content: bytes) -> None:
        before = set(Path(page.bench.folder).iterdir())
        for address in ("api/models?name=x.onnx", "api/pictures?name=x.png"):
            assert page.post(address, content, 422)["error"]
        assert set(Path(page.bench.folder).iterdir()) == before

    def test_a_model_that_fails(self, page: Page, seven: Path) -> None:
        node = helper.make_node("Gather", ["x", "index"], ["y"], axis=0)
        model = data([node], [tensor("x", [2])], [tensor("y", [1])], {"index": np.array([10**6])})
        assert page.post("api/evaluate", {"model": opened(page, model)}, 422)["error"]
        unknown = data([helper.make_node("Unheard", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])
        assert page.post("api/evaluate", {"model": opened(page, unknown)}, 422)["error"]
        assert evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, seven))["answer"]

    @pytest.mark.parametrize("asked", [{}, {"model": 1}, {"model": "x", "inputs": []}, {"model": ["a"]}])
    def test_requests_that_mean_nothing(self, page: Page, asked: Any) -> None:
        assert page.post("api/evaluate", asked, 404)["error"]


def slow() -> bytes:
    """One kernel, which looks at no request to stop; for a count of a million steps it takes five seconds or more."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.random((1, 512, 1), np.float32),
        "r": rng.random((1, 512, 128), np.float32),
        "one": np.float32([1]),
        "most": np.float32([1_000_000]),
        "rest": np.array([1, 1]),
    }
    nodes = [  # a count of 0, which is made up, is a million
        helper.make_node("Cast", ["count"], ["given"], to=1),
        helper.make_node("Equal", ["given", "none"], ["is_none"]),
        helper.make_node("Where", ["is_none", "most", "given"], ["steps"]),
        helper.make_node("Cast", ["steps"], ["whole"], to=INT64),
        helper.make_node("Concat", ["whole", "rest"], ["shape"], axis=0),
        helper.make_node("Expand", ["one", "shape"], ["long"]),
        helper.make_node("LSTM", ["long", "w", "r"], ["", "y"], hidden_size=128),
    ]
    return data(nodes, [tensor("count", [1], INT64)], [tensor("y", (1, 1, 128))], weights | {"none": np.float32([0])})


def processes(page: Page) -> list[int]:
    """Those that were started since the page: the engines of its models."""
    started = set(psutil.Process().children()) - page.others
    return [child.pid for child in started if child.status() != psutil.STATUS_ZOMBIE]


class TestModelsThatDoNotReturn:
    def begin(self, page: Page) -> tuple[threading.Thread, list[tuple[int, Any]]]:
        """Evaluates a model that takes long, and waits until it runs."""
        body, answers = json.dumps({"model": opened(page, slow())}).encode(), list[tuple[int, Any]]()

        def ask() -> None:
            with suppress(OSError, HTTPException, ValueError):  # the page ends
                status, _, answer = page.ask(f"/{page.token}/api/evaluate", body)
                answers.append((status, json.loads(answer)))

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: bool(processes(page)))
        time.sleep(2)  # a process that is signalled while it starts cannot say how it ended
        return thread, answers

    def require_usable(self, page: Page) -> None:
        facts = evaluated(page, opened(page, MODELS / "digits.onnx"), picture_of(page, PICTURES / "seven.png"))
        assert facts["answer"]["outputs"]["probabilities"]["top"][0]["index"] == 7

    def test_the_time_is_up(self) -> None:
        """The limit is of the evaluation alone: the session is open already."""
        with serve_page() as page:
            body = {"model": opened(page, slow()), "inputs": {"count": {"text": "1"}}}
            page.post("api/evaluate", body)
            page.bench.seconds = 0.2
            answer = page.post("api/evaluate", body | {"inputs": {}}, 422)
            assert answer["error"] == "The model did not finish within 0.2 s and was stopped."
            page.bench.seconds = 60.0
            self.require_usable(page)

    def test_one_ends_its_process(self) -> None:
        with serve_page() as page:
            thread, answers = self.begin(page)
            send_signal(processes(page)[0], "SIGSEGV")
            thread.join(20)
            ((status, answer),) = answers
            assert status == 422
            assert describe_signal("SIGSEGV") in answer["error"]
            self.require_usable(page)

    def test_the_page_ends_meanwhile(self) -> None:
        with serve_page() as page:
            thread, _ = self.begin(page)
            (pid,) = processes(page)
        thread.join(20)
        assert not thread.is_alive()
        wait_until(lambda: not is_alive(pid))
        assert not os.path.exists(page.bench.folder)


def test_ten_tabs_at_once(page: Page) -> None:
    """Each has its own picture and settings, and gets its own answer."""
    digits, shapes = opened(page, MODELS / "digits.onnx"), opened(page, MODELS / "shapes.onnx")
    pictures = {name: picture_of(page, PICTURES / name) for name in ("seven.png", "shapes.png", "cat.jpg")}
    asked: list[tuple[str, str, dict[str, str]]] = []
    for number in range(10):
        words = list(CONTRACTS.values())[number % len(CONTRACTS)].to_metadata()
        gray = ImageContract(BitmapPixelFormat.GRAY8, mean=(float(number),)).to_metadata()
        picture = list(pictures.values())[number % 3]
        asked.append((shapes, picture, words) if number % 2 else (digits, picture, gray))
    alone = [evaluated(page, *each) for each in asked]
    with ThreadPoolExecutor(10) as pool:
        together = list(pool.map(lambda each: evaluated(page, *each), asked))
    for one, other in zip(alone, together, strict=True):
        assert {key: one[key] for key in ("answer", "tensors", "contracts")} == {
            key: other[key] for key in ("answer", "tensors", "contracts")
        }


def test_what_is_kept_is_bounded(seven: Path) -> None:
    with serve_page() as page:
        model = opened(page, MODELS / "digits.onnx")
        first = picture_of(page, seven)
        for _ in range(60):
            picture_of(page, seven)
        answer = page.post("api/evaluate", {"model": model, "inputs": {"image": {"picture": first}}}, 404)
        assert "no longer open" in answer["error"]
        assert len(list(Path(page.bench.folder).iterdir())) < 60


def test_a_trial_leaves_nothing_behind(page: Page) -> None:
    model, picture = opened(page, MODELS / "shapes.onnx"), picture_of(page, PICTURES / "shapes.png")
    whole = evaluated(page, model, picture)
    kept = set(page.bench.evaluations._items)
    request = {"model": model, "inputs": {"image": {"picture": picture}}, "is_trial": True}
    assert page.post("api/evaluate", request) == {"answer": whole["answer"]}
    assert set(page.bench.evaluations._items) == kept


@pytest.mark.parametrize(
    ("shape", "order", "layout", "is_free"),
    [
        ([1, 3, 8, 8], "Bgr8", "NCHW", False),
        ([1, 3, "h", "w"], "Bgr8", "NCHW", True),
        ([1, 3, 8, "w"], "Bgr8", "NCHW", False),
        ([1, 1, 8, 8], "Gray8", "NCHW", False),
        ([1, 8, 8, 3], "Bgr8", "NHWC", False),
    ],
)
def test_models_that_state_no_contract(page: Page, shape: list[Any], order: str, layout: str, is_free: bool) -> None:
    """They have Windows ML's rule."""
    (facts,) = page.post("api/models?name=m.onnx", unary("Identity", shape))["inputs"]
    assert facts["contract"]["Image.BitmapPixelFormat"] == order
    assert facts["contract"].get("Image.Layout", "NCHW") == layout
    assert (facts["is_free"], facts["is_stated"]) == (is_free, False)
    assert "contract" not in page.post("api/models?name=m.onnx", unary("Identity", [1, 2, 8, 8]))["inputs"][0]
