"""Windows ML's own Runtime and this library, side by side in one process, under Wine.

    python tests/tools/windows_ml.py [--count 10000] [--write FILE]
    python tests/tools/windows_ml.py --read FILE

`.ci/windows-ml` prepares what this needs, on Debian: Wine, Python for Windows, and Microsoft's package windowsml. Where
that is not possible, the program says so and exits with 77. It compares:

* pictures that both convert to tensors: --count of them, each made from its number; every 200th has 2 to 12 megapixels
* the outputs of models: those of the repository, and of packages that the tests install
* tensors that both convert back to pictures
* what both refuse
* times, as ratios of medians: the two take turns

Any difference is printed, and makes the exit code 1; so does a ratio above its limit with --times. --write writes
digests of the tensors that Windows ML made. --read compares them with those that this library makes here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # where `helpers` is, for the program

from helpers.models import FLOAT, FLOAT16, unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureDescriptor,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    TensorFeatureDescriptor,
    TensorLayout,
    WinMLError,
)
from winml_py._values import evaluate_to_arrays

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).parents[2]
SKIPPED = 77
CHANNELS = {"GRAY8": 1, "RGBA8": 4, "BGRA8": 4}
ELEMENTS = {"FLOAT32": FLOAT, "FLOAT16": FLOAT16}
NORMALIZATIONS = (
    ((1.0,) * 3, (0.0,) * 3),
    ((1 / 255,) * 3, (0.0,) * 3),
    ((1 / (0.229 * 255), 1 / (0.224 * 255), 1 / (0.225 * 255)), (123.675, 116.28, 103.53)),
    ((0.0173, 0.013, 0.021), (123.3, 110.7, 100.1)),
    ((1 / 127.5,) * 3, (127.5,) * 3),
)
"""Scales and means, in the order of the tensor's channels."""
LIMITS = {"convert": 0.8, "evaluate": 1.0, "load": 1.1}
"""The most of Windows ML's time that ours may take."""


class Case(NamedTuple):
    """A picture, and how it becomes a tensor. Sizes are height and width."""

    number: int
    picture: tuple[int, int]
    size: tuple[int, int] | None
    mode: str
    source: str
    order: str
    layout: str
    element: str
    scale: tuple[float, ...]
    mean: tuple[float, ...]
    pad: tuple[float, ...]

    def make_pixels(self) -> Array:
        """Noise, or for every second picture, waves with noise."""
        height, width = self.picture
        channels = CHANNELS[self.source]
        pixels = np.frombuffer(Random(self.number).randbytes(height * width * channels), np.uint8)
        shape = (height, width, channels) if channels > 1 else (height, width)
        if self.number % 2:
            rows, columns = np.ogrid[:height, :width]
            waves: Array = (
                ((rows * 3 + columns * 5) % 256).astype(np.uint8).reshape(height, width, *(1,) * (channels > 1))
            )
            return waves + pixels.reshape(shape) // 16
        return pixels.reshape(shape)


def make_case(number: int) -> Case:
    """The case of a number, the same on every machine."""
    random = Random(number)

    def side(most: int) -> int:
        return int(most ** random.random())

    picture, size = (side(400), side(400)), (side(320), side(320))
    if number == 1:
        picture = (1, 1)
    elif number == 2:
        picture = (3024, 4032)
    elif number % 200 == 3:
        picture, size = (random.randint(1080, 3024), random.randint(1920, 4032)), (224, random.choice([224, 398]))
    elif number % 7 == 0:  # lengths that scale to a whole number and a half
        picture = (2 * size[0] + 1, 4 * size[1] + 2)
    order = random.choice(["RGB", "RGB", "BGR", "GRAY"])
    scale, mean = random.choice(NORMALIZATIONS)
    return Case(
        number,
        picture,
        None if number % 50 == 5 else size,
        random.choice(["stretch", "center_crop", "letterbox"]),
        random.choice(list(CHANNELS)),
        order,
        random.choice(["NCHW", "NHWC"]),
        random.choice(["FLOAT32", "FLOAT32", "FLOAT16"]),
        scale[:1] if order == "GRAY" else scale,
        mean[:1] if order == "GRAY" else mean,
        tuple(random.choice([0.0, 255.0, 114.0, 20.6, 99.1]) for _ in range(3)),
    )


def digest(tensor: Array) -> str:
    """A few digits that stand for a tensor's shape, type and numbers."""
    head = f"{tensor.shape} {tensor.dtype}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(tensor).tobytes()).hexdigest()[:16]


class Ours:
    """This library, as a program uses it."""

    @cache  # noqa: B019 - a few sessions, for the whole run
    def create(self, layout: str, channels: int, element: str) -> tuple[LearningModelSession, LearningModelBinding]:
        """A session of a model that gives its input back, and a binding."""
        shape: list[int | str] = [1, channels, "h", "w"] if layout == "NCHW" else [1, "h", "w", channels]
        session = LearningModelSession(LearningModel.load(unary(shape=shape, element=ELEMENTS[element])))
        return session, LearningModelBinding(session)

    @lru_cache  # noqa: B019 - a program makes it once, too
    def make_contract(self, case: Case) -> ImageContract:
        """The contract of a case."""
        pad = [round(level) for level in case.pad]
        contract = ImageContract.windowsml(
            case.size or case.picture,
            case.mode,
            BitmapPixelFormat[f"{case.order}8"],
            scale=case.scale,
            mean=case.mean,
            pad=(pad[0],) * 3 if case.order == "GRAY" else tuple(pad),  # type: ignore[arg-type]
        )
        return replace(contract, layout=TensorLayout[case.layout])

    def bind(self, case: Case, pixels: Array) -> tuple[LearningModelSession, LearningModelBinding]:
        """Converts a picture to the tensor of a binding."""
        contract = self.make_contract(case)
        session, binding = self.create(case.layout, contract.channels, case.element)
        image = ImageFeatureValue.from_array(pixels, BitmapPixelFormat[case.source])
        binding.bind("x", image, {"ImageContract": contract})
        return session, binding

    def convert(self, case: Case, pixels: Array | None = None) -> Array:
        """The tensor of a picture."""
        session, binding = self.bind(case, case.make_pixels() if pixels is None else pixels)
        return np.array(session.evaluate(binding).outputs["y"].to_numpy())


class Theirs:
    """Windows ML's Runtime, as its programs use it."""

    def __init__(self) -> None:
        import onnxruntime  # noqa: F401 - before windowsml, which then uses the same
        import windowsml.runtime as runtime  # type: ignore[import-not-found]

        self.api: Any = runtime
        self.runtime = runtime.Runtime()
        self.cpu = self.runtime.create_cpu_target()

    @lru_cache  # noqa: B019
    def make_options(self, case: Case) -> Any:
        """Its options of a case. Its sizes are width and height, and it always takes four numbers."""
        api = self.api
        scale, mean = ((*value, *(value[-1:] * 3))[:4] for value in (case.scale, case.mean))
        return api.ImageTensorOptions(
            data_type=api.TensorDataType[case.element],
            layout=api.TensorLayout[case.layout],
            channel_order=api.TensorChannelOrder[case.order],
            size=case.size and case.size[::-1],
            resize_mode=api.ImageResizeMode[case.mode.upper()],
            letterbox_value=(*case.pad, 0.0),
            normalization=api.TensorNormalization(tuple(scale), tuple(mean)),
        )

    def make_tensor(self, case: Case, pixels: Array) -> Any:
        """Its tensor of a picture."""
        height, width = case.picture
        return self.runtime.tensor_from_image(
            pixels,
            options=self.make_options(case),
            target=self.cpu,
            image_format=self.api.ImageFormat[case.source],
            width=width,
            height=height,
        )

    def convert(self, case: Case, pixels: Array | None = None) -> Array:
        """The tensor of a picture."""
        return np.array(self.make_tensor(case, case.make_pixels() if pixels is None else pixels).to_numpy())

    def build(self, model: Path, feeds: dict[str, Array]) -> tuple[Any, Callable[[], dict[str, Array]], list[Any]]:
        """A pipeline of one model with these inputs, what returns its outputs by name, and what must stay alive."""
        loaded = self.runtime.load_model(str(model))
        builder = self.runtime.create_pipeline_builder()
        stage = builder.add_model_stage(loaded, self.cpu)
        pipeline = builder.build()
        schema = loaded.ort_schema()
        tensors = [self.runtime.tensor_from_numpy(array, target=self.cpu) for array in feeds.values()]
        for name, tensor in zip(feeds, tensors, strict=True):
            stage.bind_input(schema.find_input(name), tensor)
        names = [schema.output_name(index) for index in range(loaded.schema().output_count)]
        for index in range(len(names)):
            stage.request_output(index)

        def read() -> dict[str, Array]:
            return {name: stage.output(index).to_numpy() for index, name in enumerate(names)}

        return pipeline, read, [loaded, builder, stage, tensors]


def compare_pictures(theirs: Theirs, count: int, digests: list[str]) -> Iterator[str]:
    """Pictures that both convert."""
    ours = Ours()
    for number in range(count):
        case = make_case(number)
        pixels = case.make_pixels()
        expected, tensor = theirs.convert(case, pixels), ours.convert(case, pixels)
        digests.append(digest(expected))
        if digest(expected) != digest(tensor):
            same = expected.shape == tensor.shape
            yield f"{case}: {(expected != tensor).sum() if same else (expected.shape, tensor.shape)}"


def list_models() -> list[Path]:
    """The models of the repository, and those of packages that tests install; a few of ONNX's small ones."""
    import onnx

    packages = Path(onnx.__file__).parents[1]
    installed = [path for path in sorted(packages.rglob("*.onnx")) if "backend" not in path.parts]
    light = sorted((packages / "onnx/backend/test/data/light").glob("*_[irs]*.onnx"))  # not the largest
    converted = sorted((packages / "onnx/backend/test/data/pytorch-converted").glob("*/model.onnx"))[::3]
    return [
        *sorted((ROOT / "models").glob("*.onnx")),
        *sorted((ROOT / "tests").rglob("*.onnx")),
        *installed,
        *light,
        *converted,
    ]


def make_feeds(model: LearningModel) -> dict[str, Array]:
    """Numbers for each input; a free side becomes 64, a free batch 1."""
    random = np.random.default_rng(0)
    feeds = {}
    for feature in list[Any](model.input_features):
        free = [1, *[64] * 9]
        shape = [side if side > 0 else free[axis] for axis, side in enumerate(feature.shape)]
        dtype = np.dtype(feature.tensor_kind.name.lower().replace("float", "float32").replace("float3216", "float16"))
        numbers = random.random(shape)
        feeds[feature.name] = (numbers * (1 if dtype.kind == "f" else 3)).astype(dtype)
    return feeds


def compare_models(theirs: Theirs) -> Iterator[str]:
    """Outputs of models, to the bit."""
    compared, tensors = 0, (TensorFeatureDescriptor, ImageFeatureDescriptor)
    for path in list_models():
        try:
            model = LearningModel.load(path)
            feeds, session = make_feeds(model), LearningModelSession(model)
        except (WinMLError, TypeError, AttributeError) as error:
            print(f"  {path.parent.name}/{path.name}: not compared: {error}")
            continue
        if not all(isinstance(end, tensors) for end in (*model.input_features, *model.output_features)):
            print(
                f"  {path.parent.name}/{path.name}: not compared: Windows ML reads at address 0 if not all are tensors"
            )
            continue
        try:
            pipeline, read, _alive = theirs.build(path, feeds)
            pipeline.run()
            expected = read()
        except (theirs.api.WinMLError, OSError) as error:  # OSError: it reads at address 0
            print(f"  {path.parent.name}/{path.name}: Windows ML cannot run it: {error}")
            continue
        answer = evaluate_to_arrays(session, feeds)
        compared += 1
        for name, array in expected.items():
            mine = answer[name]
            if mine.shape != array.shape or not np.array_equal(mine, array, equal_nan=array.dtype.kind == "f"):
                yield f"{path.parent.name}/{path.name}, {name}: differs"
    print(f"  {compared} models")
    if compared < 30:
        yield f"only {compared} models were compared"


def compare_pictures_back(theirs: Theirs) -> Iterator[str]:
    """Tensors that both convert to pictures, within and beyond the levels; without halves, which it rounds up."""
    random = np.random.default_rng(4)
    for scale, mean in NORMALIZATIONS:
        case = Case(0, (40, 56), None, "stretch", "RGBA8", "RGB", "NCHW", "FLOAT32", scale, mean, (0, 0, 0))
        levels = random.uniform(-20, 275, (1, 3, 40, 56))
        levels[np.abs(levels % 1 - 0.5) < 1e-3] = 9
        columns = [np.array(value, np.float32).reshape(3, 1, 1) for value in (scale, mean)]
        numbers = (levels.astype(np.float32) - columns[1]) * columns[0]
        tensor = theirs.runtime.tensor_from_numpy(numbers, target=theirs.cpu)
        data = tensor.to_image_bytes(
            size=(56, 40), image_format=theirs.api.ImageFormat.RGBA8, options=theirs.make_options(case)
        )
        expected = np.frombuffer(data, np.uint8).reshape(40, 56, 4)[..., :3]
        contract = ImageContract.windowsml(None, scale=scale, mean=mean)
        metadata = contract.to_metadata()
        model = LearningModel.load(unary(shape=(1, 3, 40, 56), denotation="IMAGE", metadata=metadata))
        answer: Any = LearningModelSession(model).evaluate_features({"x": numbers}).outputs["y"]
        mine = answer.to_numpy()[..., :3]
        if not np.array_equal(mine, expected):
            most = np.abs(mine.astype(int) - expected).max()
            yield f"scale {scale}, mean {mean}: {(mine != expected).mean():.3%} differ, by at most {most}"


def compare_refusals(theirs: Theirs) -> Iterator[str]:
    """What it refuses, we refuse."""
    api, digits = theirs.api, ROOT / "models/digits.onnx"
    case = make_case(0)._replace(picture=(4, 4), source="RGBA8", size=(8, 8), element="FLOAT32")
    ours = Ours()

    def evaluate(**feeds: Array) -> None:
        LearningModelSession(LearningModel.load(digits)).evaluate_features(feeds)

    name = LearningModel.load(digits).input_features[0].name
    array = np.zeros((1, 1, 28, 28), np.float32)

    def resize(height: int, width: int) -> tuple[Callable[[], object], Callable[[], object]]:
        wanted = case._replace(size=(height, width))
        return lambda: theirs.convert(wanted), lambda: ours.convert(wanted)

    def feed(**feeds: Array) -> tuple[Callable[[], object], Callable[[], object]]:
        return lambda: theirs.build(digits, feeds)[0].run(), lambda: evaluate(**feeds)

    nan = float("nan")
    wrong: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "a missing model": (lambda: theirs.runtime.load_model("none.onnx"), lambda: LearningModel.load("none.onnx")),
        "bytes that are no model": (
            lambda: theirs.runtime.load_model_from_buffer(b"no model"),
            lambda: LearningModel.load(b"no model"),
        ),
        "another shape": feed(**{name: array[..., :9]}),
        "another type": feed(**{name: array.astype(np.int32)}),
        "another name": feed(other=array),
        "no input": feed(),
        "a size of 0": resize(0, 8),
        "a negative size": resize(-3, 8),
        "too few bytes": (
            lambda: theirs.convert(case, np.zeros((2, 4, 4), np.uint8)),
            lambda: ImageFeatureValue.from_array(np.zeros((4, 4, 2), np.uint8), BitmapPixelFormat.RGBA8),
        ),
        "a mean that is no number": (
            lambda: theirs.convert(case._replace(mean=(nan,))),
            lambda: ours.convert(case._replace(mean=(nan,))),
        ),
    }
    refused = 0
    for what, (ask, try_ours) in wrong.items():
        try:
            ask()
            print(f"  {what}: Windows ML accepts it")
            continue
        except (api.WinMLError, ValueError, TypeError, OSError, OverflowError) as error:
            print(f"  {what}: {str(error)[:100]}")
            refused += 1
        try:
            try_ours()
        except WinMLError as error:
            print(f"    ours: {str(error)[:160]}")
        else:
            yield f"{what}: Windows ML refuses it, and we do not"
    if refused < 5:
        yield "Windows ML refuses less than it did"


def take_turns(ways: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The median time of each, in seconds.

    They run by turns, so that what else the machine does meets both; a turn is several calls, of which the first do not
    count, because threads of the other side may still wait for work and keep a core busy.
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    for way in ways.values():
        way()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["ours"]) < 24:
        for name, way in ways.items():
            for call in range(12):
                begin = time.perf_counter()
                way()
                if call >= 4:
                    times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in times.items()}


def open_model(path: Path) -> LearningModelBinding:
    """Loads a model, and makes a session and a binding."""
    return LearningModelBinding(LearningModelSession(LearningModel.load(path)))


def compare_times(theirs: Theirs, seconds: float) -> Iterator[str]:
    """Ratios of our time to that of Windows ML."""
    rows: list[tuple[str, str, dict[str, Any]]] = []
    ours = Ours()
    for picture in ((480, 640), (1080, 1920), (3024, 4032)):
        for mode, order in (("stretch", "RGB"), ("letterbox", "RGB"), ("center_crop", "RGB"), ("stretch", "GRAY")):
            scale, mean = NORMALIZATIONS[2]
            gray = 1 if order == "GRAY" else 3
            case = Case(
                2, picture, (224, 224), mode, "RGBA8", order, "NCHW", "FLOAT32", scale[:gray], mean[:gray], (0, 0, 0)
            )
            pixels = case.make_pixels()
            convert = {"theirs": partial(theirs.make_tensor, case, pixels), "ours": partial(ours.bind, case, pixels)}
            rows.append(("convert", f"{picture[1]}x{picture[0]}, {mode}, {order}", convert))
    alive = []
    for name in ("digits", "digits_batch", "shapes", "shapes_mask"):
        path = ROOT / "models" / f"{name}.onnx"
        model = LearningModel.load(path)
        feeds = make_feeds(model)
        pipeline, _, kept = theirs.build(path, feeds)
        session = LearningModelSession(model)
        binding = LearningModelBinding(session)
        for key, array in feeds.items():
            binding.bind(key, array)
        for key, array in evaluate_to_arrays(session, feeds).items():
            binding.bind(key, array)  # it, too, writes to the same memory each time
        alive.append((kept, binding))
        rows.append(("evaluate", name, {"theirs": pipeline.run, "ours": partial(session.evaluate, binding)}))
        rows.append(("load", name, {"theirs": partial(theirs.build, path, feeds), "ours": partial(open_model, path)}))
    for kind, what, ways in rows:
        medians = take_turns(ways, seconds)
        ratio = medians["ours"] / medians["theirs"]
        verdict = "" if ratio <= LIMITS[kind] else f" (above {LIMITS[kind]})"
        print(
            f"  {kind:8} {what:32} theirs {medians['theirs'] * 1e3:9.3f} ms, ours {ratio:.2f} of it{verdict}",
            flush=True,
        )
        if verdict:
            yield f"{kind} {what}: {ratio:.2f}"


def run_on_windows(options: argparse.Namespace) -> int:
    """Compares both; returns the exit code."""
    theirs, digests = Theirs(), list[str]()
    parts: dict[str, Callable[[], Iterator[str]]] = {
        f"{options.count} pictures": lambda: compare_pictures(theirs, options.count, digests),
        "models": lambda: compare_models(theirs),
        "pictures of tensors": lambda: compare_pictures_back(theirs),
        "refusals": lambda: compare_refusals(theirs),
    }
    if options.times:
        parts["times"] = lambda: compare_times(theirs, options.times)
    failed = 0
    for name, part in parts.items():
        print(f"{name}:", flush=True)
        problems = 0
        for problem in part():
            problems += 1
            if problems <= 20:
                print(f"  DIFFERENCE: {problem}", flush=True)
        print(f"  {problems} differences", flush=True)
        failed += problems
        if options.write:
            options.write.write_text(json.dumps(digests, indent=0) + "\n")
    return min(failed, 1)


def read_digests(path: Path) -> int:
    """Compares digests that Windows ML's side wrote with this library's tensors here; returns the exit code."""
    ours = Ours()
    digests = json.loads(path.read_text())
    wrong = [number for number, expected in enumerate(digests) if digest(ours.convert(make_case(number))) != expected]
    print(f"{len(digests)} tensors of Windows ML, {len(wrong)} different here: {wrong[:20]}")
    return min(len(wrong), 1)


def main() -> int:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument(
        "--times", type=float, default=0, help="the seconds that each comparison of times takes; 0: none"
    )
    parser.add_argument("--write", type=Path)
    parser.add_argument("--read", type=Path)
    options = parser.parse_args()
    if options.read:
        return read_digests(options.read)
    if sys.platform == "win32":
        code = run_on_windows(options)
        sys.stdout.flush()
        os._exit(code)  # Wine lacks what Windows ML calls at the end of a process
    program = subprocess.run([ROOT / ".ci/windows-ml"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if not program:
        print("Windows ML cannot be prepared on this machine: not compared")
        return SKIPPED
    command = [program, "-u", "tests/tools/windows_ml.py", *sys.argv[1:]]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
