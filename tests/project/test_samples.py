"""The samples: each runs as its docstring says, and what it prints or writes is right by somebody else's reckoning."""

from __future__ import annotations

import ast
import http.client
import json
import math
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import wave
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from PIL import Image, ImageDraw, ImageFont

from helpers.cli import require_exit
from helpers.paths import MODELS, PICTURES, ROOT
from helpers.processes import has_ended, interrupt, start_program
from helpers.rectangles import overlap
from helpers.reference import run_first, run_raw
from helpers.services import SERVICES
from helpers.waiting import wait_until
from winml_py import LearningModel, LearningModelDevice

pytestmark = pytest.mark.one_python

SAMPLES = ROOT / "samples"


Run = Callable[..., list[str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a sample, warnings being errors; gives the lines that it prints, or says where it fails."""

    def run(name: str, *arguments: str | Path, folder: Path, succeeds: bool = True, is_quiet: bool = True) -> list[str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        capfd.readouterr()
        failure = None
        try:
            runpy.run_path(str(SAMPLES / f"{name}.py"), run_name="__main__")
        except SystemExit as ended:
            failure = ended.code
        output, errors = capfd.readouterr()
        assert (not failure) is succeeds, failure
        if not succeeds:
            return str(failure).splitlines()
        if is_quiet:
            assert errors == ""
        return output.splitlines()

    return run


def make_bgr_tensor(picture: Image.Image) -> np.ndarray:
    """The tensor that the effect models want."""
    return np.asarray(picture.convert("RGB"), np.float32)[None, :, :, ::-1].transpose(0, 3, 1, 2).copy()


def draw_digit(digit: int) -> Image.Image:
    picture = Image.new("L", (200, 200))
    ImageDraw.Draw(picture).text((100, 100), str(digit), 255, ImageFont.load_default(180), "mm", stroke_width=8)
    return picture


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """What the digit model makes of seven.png, which Pillow has scaled."""
    pixels = np.asarray(Image.open(PICTURES / "seven.png").resize((28, 28), Image.Resampling.BICUBIC), np.float32)
    return run_first(MODELS / "digits.onnx", pixels[None, None] / 255)[0]


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    return Image.open(PICTURES / "cat.jpg").convert("RGB")


def test_every_sample_has_a_test() -> None:
    tested = set(re.findall(r'(?:run\(|SAMPLES / )"(\w+)', Path(__file__).read_text(encoding="utf-8"))) | {
        f"service_{name}" for name in SERVICES
    }
    assert tested == {path.stem for path in SAMPLES.glob("*.py")}


SHAPES = {"circle": (60, 70, 190, 200), "square": (270, 60, 430, 220), "triangle": (150, 215, 270, 300)}
"""Where samples/detect_shapes.py draws them: left, top, right, bottom."""


def test_detect_shapes(run: Run, tmp_path: Path) -> None:
    lines = [
        re.fullmatch(r"(\w+) +(\d+)% (\d+),(\d+) to (\d+),(\d+)", line)
        for line in run("detect_shapes", folder=tmp_path)
    ]
    boxes = {line[1]: tuple(map(int, line.groups()[2:])) for line in lines}
    assert len(lines) == len(boxes) == 3
    for label, box in SHAPES.items():
        assert overlap(boxes[label], box) > 0.7
    with Image.open(tmp_path / "drawn.png") as drawn:
        assert drawn.size == (480, 320)


def test_detect_shapes_of_a_file(run: Run, tmp_path: Path) -> None:
    """A picture in portrait, whose file is turned."""
    picture = Image.new("RGB", (200, 400), (90, 100, 80))
    ImageDraw.Draw(picture).ellipse((40, 220, 140, 320), (220, 200, 60))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn clockwise makes it upright
    picture.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    (line,) = run("detect_shapes", tmp_path / "turned.png", tmp_path / "out.png", folder=tmp_path)
    numbers = list(map(int, re.findall(r"\d+", line)))
    assert line.startswith("circle")
    assert overlap(tuple(numbers[1:]), (40, 220, 140, 320)) > 0.7
    drawn_on = np.asarray(Image.open(tmp_path / "out.png").convert("RGB")).astype(int)
    assert drawn_on.shape == (400, 200, 3)
    changed = np.abs(drawn_on - np.asarray(picture)).max(axis=2) > 100
    assert changed[180:340, 20:].sum() == changed.sum() > 300  # around the circle, and its name above


@pytest.mark.exhaustive
def test_learn_preprocessing(run: Run, tmp_path: Path) -> None:
    assumed, learned, distance = run("learn_preprocessing", folder=tmp_path)
    assert re.fullmatch(r"assumed: BGR8, zero_to255: [1-9]\d found: .*", assumed)
    words, _, detections = learned.partition("128 128: ")
    assert words == "learned: RGB8, zero_to_one, fit, linear, pad 114 114 114, size "
    assert detections == "3 found: circle 0.98, square 0.97, triangle 0.86"
    assert distance == "0.00 levels from the training's own tensors, on 253 pictures"
    pixels = np.full((128, 128, 3), 0.0) + cv2.resize(np.asarray(Image.open(PICTURES / "shapes.png")), (128, 128))
    exported = run_first(tmp_path / "shapes_exported.onnx", pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255)
    model = onnx.load(tmp_path / "shapes_right.onnx")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["Image.Scaling"] == "fit"
    answer = numpy_helper.to_array(onnx.load_tensor(tmp_path / "test_data_set_0" / "output_0.pb"))
    np.testing.assert_allclose(answer, exported, atol=0.5)


def test_segment_shapes(run: Run, tmp_path: Path) -> None:
    picture = Image.new("RGB", (400, 300), (30, 60, 30))
    ImageDraw.Draw(picture).ellipse((50, 50, 200, 200), "yellow")
    picture.save(tmp_path / "picture.png")
    lines = run("segment_shapes", tmp_path / "picture.png", tmp_path / "out.png", folder=tmp_path)
    shares = {label: float(share.rstrip("%")) / 100 for share, label in map(str.split, lines)}
    yellow = np.asarray(picture)[:, :, 0] > 128
    assert shares["circle"] == pytest.approx(yellow.mean(), abs=0.01)
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    coloured = (np.asarray(Image.open(tmp_path / "out.png").convert("RGB")) != np.asarray(picture)).any(axis=2)
    assert (coloured == yellow).mean() > 0.98


def test_search_docs(run: Run, tmp_path: Path) -> None:
    pages = {"blue": "blue whales sing and dive", "green": "green whales sing sing", "red": "red apples and red pears"}
    for name, text in pages.items():
        (tmp_path / f"{name}.md").write_text(text)
    words = {name: text.split() for name, text in pages.items()}

    def weight(word: str, page: str) -> float:
        count = sum(word in page_words for page_words in words.values())
        return math.log(1 + words[page].count(word)) * math.log(4 / (1 + count))

    scores = {
        name: sum(weight(word, name) for word in ("blue", "whales", "dive"))
        / math.hypot(*(weight(word, name) for word in set(page)))
        for name, page in words.items()
    }
    expected = [f"{scores[name]:.2f} {name}.md" for name in ("blue", "green", "red")]
    assert run("search_docs", "Blue WHALES dive", tmp_path, folder=tmp_path) == expected
    lines = run("search_docs", "Convert a model to float16", folder=tmp_path)
    assert {line.split()[1] for line in lines} >= {"float16.md", "api/float16.md"}
    (tmp_path / "samples").mkdir()
    for path in SAMPLES.glob("*.py"):
        shutil.copy(path, tmp_path / "samples" / path.name)
    alone = [sys.executable, "-W", "error", tmp_path / "samples" / "search_docs.py", "Filter sound block by block"]
    done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[0].split()[1] == "audio_stream.py"


def test_classify(run: Run, tmp_path: Path, scores: np.ndarray) -> None:
    labels = (MODELS / "digits.labels.txt").read_text(encoding="utf-8").split()
    lines = [line.split() for line in run("classify", PICTURES / "seven.png", folder=tmp_path)]
    assert [label for label, _ in lines] == [labels[index] for index in scores.argsort()[::-1][:3]]
    assert lines[0][0] == "seven"
    for label, percent in lines:
        assert float(percent.rstrip("%")) / 100 == pytest.approx(scores[labels.index(label)], abs=0.01)


def test_effects(run: Run, tmp_path: Path, photo: Image.Image) -> None:
    names = [f"{name}.png" for name in ("edges", "sharpen", "blur", "emboss", "invert")]
    assert run("effects", PICTURES / "cat.jpg", tmp_path, folder=tmp_path) == [str(tmp_path / name) for name in names]
    for name in names:
        planes = run_first(MODELS / name.replace("png", "onnx"), make_bgr_tensor(photo))[0]
        expected = np.rint(planes.clip(0, 255)).astype(np.uint8).transpose(1, 2, 0)[:, :, ::-1]
        np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / name).convert("RGB")), expected)
    inverted = np.asarray(Image.open(tmp_path / "invert.png").convert("RGB"))
    np.testing.assert_array_equal(inverted, 255 - np.asarray(photo))


def read_sizes(line: str) -> str:
    """What samples/upscale.py says of the sizes; the rest of its line is where it ran."""
    return re.fullmatch(r"(\d+x\d+ to \d+x\d+) on .+, by \w+ExecutionProvider", line)[1]


def test_upscale(run: Run, tmp_path: Path, photo: Image.Image) -> None:
    line, compared = run("upscale", folder=tmp_path, is_quiet=False)  # drivers of GPUs have their say
    assert read_sizes(line) == "225x150 to 450x300"
    whole = photo.crop((0, 0, 450, 300))
    with Image.open(tmp_path / "upscaled.png") as upscaled:
        by_pillow = whole.resize((225, 150), Image.Resampling.BICUBIC).resize((450, 300), Image.Resampling.BICUBIC)
        ratios = [cv2.PSNR(np.asarray(picture), np.asarray(whole)) for picture in (upscaled, by_pillow)]
    assert ratios[0] > ratios[1]
    assert compared == "{:.2f} dB; Pillow's bicubic: {:.2f} dB".format(*ratios)


@pytest.mark.parametrize("size", [(600, 270), (257, 480), (256, 256), (40, 300)])
def test_upscale_in_tiles_gives_what_the_model_gives_of_the_whole(
    run: Run, tmp_path: Path, photo: Image.Image, size: tuple[int, int]
) -> None:
    picture = photo.resize(size)
    picture.save(tmp_path / "in.png")
    (line,) = run("upscale", "in.png", "out.png", folder=tmp_path, is_quiet=False)
    assert read_sizes(line) == f"{size[0]}x{size[1]} to {size[0] * 2}x{size[1] * 2}"
    planes = np.asarray(picture, np.float32).transpose(2, 0, 1)[None] / 255
    expected = run_first(MODELS / "upscale.onnx", planes)[0].clip(0, 1).transpose(1, 2, 0) * 255
    with Image.open(tmp_path / "out.png") as upscaled:
        assert np.abs(np.asarray(upscaled) - expected).max() < 0.51  # rounded, and no seam


def test_nearest_vectors(run: Run, tmp_path: Path) -> None:
    first, *lines, last = run("nearest_vectors", folder=tmp_path, is_quiet=False)
    assert re.fullmatch(r"2 x 20000 cosines on .+, by \w+ExecutionProvider", first)
    random = np.random.default_rng(0)
    vectors = random.standard_normal((20_000, 128), np.float32).astype(np.float64)
    for (query, twin), line in zip([(17, 4_711), (805, 19_999)], lines, strict=True):
        vectors[twin] = vectors[query] + 0.3 * random.standard_normal(128, np.float32)
        cosines = vectors @ vectors[query] / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vectors[query])
        nearest = cosines.argsort()[::-1][:3]
        assert line == f"{query}: " + ", ".join(f"{near} ({cosines[near]:.3f})" for near in nearest)
        assert nearest[:2].tolist() == [query, twin]
    assert re.fullmatch(r"numpy finds the same; the cosines are at most \de[+-]\d\d apart", last)
    assert float(last.split()[-2]) < 1e-5


def test_batch(run: Run, tmp_path: Path) -> None:
    shape, together, stream = run("batch", folder=tmp_path)
    assert shape == "one evaluation gives 6 x 10"
    assert together == "together: 0 1 2 3 4 5"
    assert stream == "stream: " + " ".join(str(number % 6) for number in range(20))


def test_custom_tensorization(run: Run, tmp_path: Path) -> None:
    printed = dict(line.split(": ") for line in run("custom_tensorization", folder=tmp_path))
    assert printed["digit"] == "7"
    assert printed["digit on a GPU"] in ("7", "there is none")
    sine = [tenth / 10 / 2**0.5 for tenth in range(10)]
    assert ast.literal_eval(printed["loudness"]) == pytest.approx(sine, abs=0.005001)
    assert int(printed["zero bytes"]) == (PICTURES / "seven.png").read_bytes().count(0)


def test_custom_tensorization_on_a_gpu(run: Run, gpu: LearningModelDevice, tmp_path: Path) -> None:
    assert "digit on a GPU: 7" in run("custom_tensorization", folder=tmp_path, is_quiet=False)


def test_named_dimensions(run: Run, tmp_path: Path, photo: Image.Image) -> None:
    lines = dict(line.split(": ", 1) for line in run("named_dimensions", PICTURES / "cat.jpg", folder=tmp_path))
    dimensions = onnx.load(MODELS / "edges.onnx").graph.input[0].type.tensor_type.shape.dim
    assert lines["named"].split() == [dimension.dim_param for dimension in dimensions if dimension.dim_param]
    centre = photo.resize((320, 240), Image.Resampling.BICUBIC, box=(25, 0, 425, 300))
    cases = {"free, whole": photo, "free, small": centre, "fixed, small": centre, "fixed, whole": centre}
    for case, picture in cases.items():
        mean = run_first(MODELS / "edges.onnx", make_bgr_tensor(picture)).clip(0, 255).mean()
        size, level = lines[f"{case} picture"].split(", mean level ")
        assert size == f"{picture.width}x{picture.height}"
        assert float(level) == pytest.approx(mean, abs=0.05)


def test_float16(run: Run, tmp_path: Path, scores: np.ndarray, photo: Image.Image) -> None:
    text = "\n".join(run("float16", tmp_path, folder=tmp_path))
    halves = {name: onnx.load(tmp_path / f"{name}_float16.onnx") for name in ("digits", "edges")}
    for name, half in halves.items():
        onnx.checker.check_model(half, full_check=True)
        assert f"{name}: float16" in text
        assert half.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert not any(tensor.data_type == onnx.TensorProto.FLOAT for tensor in halves["digits"].graph.initializer)
    assert (
        "4 of 7 nodes stay in float32, as their numbers exceed the range of float16: Mul_3, Mul_4, Add_5, Sqrt_6"
        in text
    )

    digit, level = (float(number) for number in re.findall(r"(?:png|jpg): (\S+) apart", text))
    assert digit < 0.02
    assert level <= 1
    assert float(re.search(r"seven.png: .* of (\S+)", text)[1]) == pytest.approx(scores.max(), abs=0.01)
    before = run_first(MODELS / "edges.onnx", make_bgr_tensor(photo))
    after = run_first(tmp_path / "edges_float16.onnx", make_bgr_tensor(photo).astype(np.float16))
    assert np.abs(after - before).max() < 0.5


def evaluate_inner_value(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """A value inside of a model that ONNX Runtime evaluates, without us."""
    model = onnx.load(path)
    model.graph.output.insert(0, onnx.ValueInfoProto(name=name))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run([name], {session.get_inputs()[0].name: array})[0]


def test_mel_spectrogram(run: Run, tmp_path: Path) -> None:
    lines = run("mel_spectrogram", tmp_path / "mel.onnx", folder=tmp_path)
    time = np.arange(16_000) / 16_000
    sound = np.concatenate([np.sin(2 * np.pi * hertz * time) for hertz in (440, 880, 1760)]).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(sound.astype(np.float64), 512)[::256]
    power = np.abs(np.fft.rfft(windows * np.sin(np.pi * np.arange(512) / 512) ** 2)) ** 2 / 512
    edges = 700 * (10 ** (np.arange(42) * np.log10(1 + 8000 / 700) / 42) - 1)  # as far apart on the mel scale
    low, centre, high = (np.floor(513 * edges / 16_000)[first : 40 + first] for first in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        k = np.arange(257)[:, None]
        rising = np.where(low == centre, k == centre, (k - low) / (centre - low))
        falling = np.where(centre == high, 0, (high - k) / (high - centre))
    weights = np.where((k >= low) & (k <= centre), rising, np.where((k > centre) & (k < high), falling, 0))
    # Not with `@`: under Wine, OpenBLAS crashes on some processors.
    expected = np.log(np.maximum(np.einsum("tk,kb->tb", power, weights), 1e-6))
    spectrogram = evaluate_inner_value(tmp_path / "mel.onnx", "spectrogram", sound[None])
    np.testing.assert_allclose(np.exp(spectrogram[0]), np.exp(expected), rtol=1e-3, atol=1e-4)
    loudest = [int(np.median(part)) for part in np.array_split(expected.argmax(axis=1), 3)]
    assert lines == [f"windows: {len(windows)}", f"loudest bands: {' '.join(map(str, loudest))}"]


def test_built_tensorization(run: Run, tmp_path: Path) -> None:
    for digit in (3, 8):
        picture = draw_digit(digit).resize((150, 190)).point(lambda level: 40 + level // 2)  # dull, and no square
        picture.save(tmp_path / "digit.png")
        assert run("built_tensorization", tmp_path / "digit.png", tmp_path / "model.onnx", folder=tmp_path) == [
            f"digit: {digit}"
        ]
        small = np.asarray(picture.convert("F").resize((28, 28), Image.Resampling.BILINEAR))
        expected = (small - small.min()) / (small.max() - small.min())
        tensor = evaluate_inner_value(tmp_path / "model.onnx", "tensor", np.asarray(picture))
        np.testing.assert_allclose(tensor[0, 0], expected, atol=1e-3)
    assert not onnx.load(tmp_path / "model.onnx").metadata_props  # the contract of digits.onnx is not about bytes


def test_webcam_takes_a_folder(run: Run, tmp_path: Path) -> None:
    for position, digit in enumerate((2, 0, 3)):
        draw_digit(digit).save(tmp_path / f"{position}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    *lines, last = run("webcam", tmp_path, folder=tmp_path)
    assert [line.split(" (")[0] for line in lines] == ["0: 2", "1: 0", "2: 3"]
    assert last.startswith("3 frames, ")


def test_webcam_takes_a_video(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "digits.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (200, 200))
    if not writer.isOpened():
        pytest.skip("OpenCV cannot write videos here")
    for digit in (5, 1, 4, 3):
        writer.write(np.asarray(draw_digit(digit).convert("RGB")))
    writer.release()
    *lines, last = run("webcam", path, folder=tmp_path)
    assert [line.split(" (")[0] for line in lines] == ["0.00 s: 5", "0.10 s: 1", "0.20 s: 4", "0.30 s: 3"]
    assert last.startswith("4 frames, ")


def test_webcam_is_not_there(run: Run, tmp_path: Path) -> None:
    (line,) = run("webcam", "99", folder=tmp_path, is_quiet=False)  # OpenCV has its say
    assert line.startswith("Nothing to see: camera 99 cannot be opened")
    (line,) = run("webcam", "nowhere.avi", folder=tmp_path, succeeds=False)
    assert line.startswith("nowhere.avi: The video does not exist.")


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="rapidocr is not installed")
def test_read_text(run: Run, tmp_path: Path) -> None:
    lines = run("read_text", folder=tmp_path)
    assert [line.split(" ", 1)[1] for line in lines] == [
        "Load, bind, evaluate.",
        "Three words & 1234567890",
        "Total: 99.50 EUR",
    ]
    with Image.open(tmp_path / "drawn.png") as picture:
        assert picture.size == (640, 256)
        assert len(picture.getcolors(1 << 16)) > 100
    page = Image.new("RGB", (901, 433), "navy")
    pen = ImageDraw.Draw(page)
    pen.text((60, 280), "Mind the gap!", "white", ImageFont.load_default(70))
    pen.text((60, 150), "Platform 9, 10:45 to Leeds", "yellow", ImageFont.load_default(44))
    for degrees in (0, 180, 10):
        page.rotate(degrees, Image.Resampling.BICUBIC, fillcolor="navy").save(tmp_path / "page.png")
        found = dict(line.split(" ", 1)[::-1] for line in run("read_text", "page.png", "lines.png", folder=tmp_path))
        assert sorted(found) == ["Mind the gap!", "Platform 9, 10:45 to Leeds"]
        assert min(int(confidence.rstrip("%")) for confidence in found.values()) >= 90
    with Image.open(tmp_path / "lines.png") as picture:
        assert picture.size == (901, 433)


@pytest.mark.usefixtures("real_plugins")
def test_devices(run: Run, tmp_path: Path, scores: np.ndarray) -> None:
    lines = run("devices", folder=tmp_path, is_quiet=False)  # drivers of GPUs have their say
    end = next(index for index, line in enumerate(lines) if line.startswith("on "))
    devices = [
        re.fullmatch(r"(cpu|gpu|npu): (.*), by (\w+ExecutionProvider)(, has float16)?", line) for line in lines[:end]
    ]
    assert (devices[0][1], devices[0][3]) == ("cpu", "CPUExecutionProvider")
    if sys.platform == "linux" and "model name" in (facts := Path("/proc/cpuinfo").read_text(encoding="utf-8")):
        assert devices[0][2] == re.search(r"^model name\s*: (.*)", facts, re.MULTILINE)[1]

    expected = next((device for device in devices if device[1] == "gpu"), devices[0])
    name, digit, probability = re.fullmatch(r"on (.*): (\d), (\S+)", lines[end]).groups()
    assert (name, digit) == (expected[2], "7")
    assert float(probability) == pytest.approx(scores[7], abs=0.01)
    engine = "onnxruntime" if expected is devices[0] else expected[3]
    assert lines[end + 1].startswith(f"{engine} in ")


def test_encrypted_model(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    nonce, tag = 12, 16
    size = (MODELS / "digits.onnx").stat().st_size + nonce + tag
    assert run("encrypted_model", folder=tmp_path) == [f"{size} bytes, encrypted; the picture is a 7"]


def test_asyncio_service_asks_itself(run: Run, tmp_path: Path, scores: np.ndarray) -> None:
    address, *answers = run("asyncio_service", folder=tmp_path)
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", address)
    parsed = [re.fullmatch(r"HTTP/1.1 (\d+) [\w ]+ (\{.*\})", answer).groups() for answer in answers]
    assert [status for status, _ in parsed] == ["200"] * 4 + ["400"]
    for _, body in parsed[:4]:
        assert json.loads(body) == {"digit": 7, "probability": pytest.approx(scores[7], abs=0.01)}
    assert "not a picture" in json.loads(parsed[4][1])["error"]


def test_asyncio_service_serves_others(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", SAMPLES / "asyncio_service.py", "0"]
    with start_program(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as service:
        try:
            port = int(service.stdout.readline().rsplit(":", 1)[1])

            def ask(body: bytes, headers: dict[str, str] | None = None) -> tuple[int, dict[str, object]]:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                connection.request("POST", "/", body, headers or {})
                response = connection.getresponse()
                answer = response.status, json.loads(response.read())
                connection.close()
                return answer

            for digit in (3, 0, 2):
                draw_digit(digit).save(tmp_path / "digit.png")
                status, answer = ask((tmp_path / "digit.png").read_bytes())
                assert (status, answer["digit"]) == (200, digit)
                assert 0.9 < answer["probability"] <= 1
            assert ask(b"", {"Content-Length": str(1 << 29)})[0] == 400
            assert ask(b"GIF89a, and no more")[0] == 400
            draw_digit(5).save(tmp_path / "digit.png")
            assert ask((tmp_path / "digit.png").read_bytes())[1]["digit"] == 5  # it outlives bad requests
            for engine in service.children(recursive=True):
                if "isolated.child" in " ".join(engine.cmdline()):
                    engine.kill()
                    wait_until(lambda engine=engine: has_ended(engine))  # the service looks later
            ask((tmp_path / "digit.png").read_bytes())  # may be the one that sees it
            assert ask((tmp_path / "digit.png").read_bytes())[1]["digit"] == 5
        finally:
            interrupt(service)


@pytest.mark.posix("Windows has no /proc/self/smaps_rollup")
@pytest.mark.skipif(sys.platform == "darwin", reason="memory is measured by /proc/self/smaps_rollup")
def test_many_sessions() -> None:
    alone = [sys.executable, "-W", "error", SAMPLES / "many_sessions.py"]
    first, *lines = subprocess.check_output(alone, text=True, timeout=120).splitlines()
    size = 2 * 1536 * 1536 * 4 / 2**20
    assert first == f"weights: {size:.0f} MB"
    pattern = r"(\w+): 4 sessions take (\d+) MB, the first number is (\S+), at most (\S+) apart"
    figures = {kind: numbers for kind, *numbers in (re.fullmatch(pattern, line).groups() for line in lines)}
    shared, private = int(figures["shared"][0]), int(figures["private"][0])
    assert size * 0.8 < shared < size * 1.5
    assert private > size * 3

    rng = np.random.default_rng(0)
    product = np.ones(1536)
    for _ in range(2):
        product = product @ (rng.standard_normal((1536, 1536), np.float32) / 1536**0.5)
    for _, number, difference in figures.values():
        assert float(number) == pytest.approx(product[0], abs=1e-3)
        assert float(difference) < 1e-4


def test_audio_stream(run: Run, tmp_path: Path) -> None:
    lines = run("audio_stream", folder=tmp_path)
    tones = [re.fullmatch(r"(\d+) Hz: (\S+), filtered (\S+)", line).groups() for line in lines]
    assert [frequency for frequency, _, _ in tones] == ["440", "6000"]
    assert [float(before) for _, before, _ in tones] == pytest.approx([0.5, 0.5], abs=0.01)
    assert float(tones[0][2]) == pytest.approx(0.5, abs=0.02)
    assert float(tones[1][2]) < 0.005


def test_audio_stream_filters_a_recording_as_if_it_were_one_block(run: Run, tmp_path: Path) -> None:
    """Blocks leave no seams: the whole is what numpy's convolution of the whole gives."""
    sound = np.random.default_rng(0).integers(-20_000, 20_000, 16_000).astype(np.int16)
    with wave.open(str(tmp_path / "in.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", "not compressed"))
        file.writeframes(sound.tobytes())
    run("audio_stream", "in.wav", "out.wav", folder=tmp_path)
    with wave.open(str(tmp_path / "out.wav")) as file:
        filtered = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    position = np.arange(101) - 50
    taps = np.sinc(position / 8) * np.hamming(101)  # 1000 Hz of 16,000
    expected = np.convolve(sound.astype(float), taps / taps.sum())[: len(sound)]
    assert np.abs(filtered[: len(sound)] - expected).max() <= 1


@pytest.mark.usefixtures("short_tune")
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("models", "samples/pictures"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "samples/notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "samples/notebooks")
    names: dict[str, Any] = {"winml": lambda line: require_exit(*shlex.split(line))}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(re.sub(r"^!winml-py (.*)$", r"winml('\1')", "".join(cell["source"]), flags=re.MULTILINE), names)
            printed, stored = capsys.readouterr().out, ["".join(output["text"]) for output in cell["outputs"]]
            assert stored in ([], [printed])
    if path.stem == "bert":
        expected = run_raw("bert.onnx", names["tokens"])["answer"]
        np.testing.assert_allclose(names["answers"], expected, atol=1e-6)
        for model, tolerance in (("bert_optimized.onnx", 1e-6), ("bert_float16.onnx", 1e-2)):
            np.testing.assert_allclose(run_raw(model, names["tokens"])["answer"], expected, atol=tolerance)
        assert LearningModel.load("bert_float16.onnx").precision == "float16"
