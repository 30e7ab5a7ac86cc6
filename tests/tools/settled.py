"""Does an answer that `winml_py.compare` calls settled stay the same in every comparison of no larger difference?

    python tests/tools/settled.py [PICTURES]

2,000 pictures (crops, noise, warps and drawings) go through four classifiers, each in six ways. Every two ways are a
pair. Of what one pair calls settled, the answers that differ in another pair of no larger difference are counted, where
both pairs have a way in common; there must be none. The last two columns have the same for a user with twelve pictures:
what is settled by the largest difference of twelve, and differs in a pair of no larger difference over all pictures.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import rapidocr
from onnx import numpy_helper
from PIL import Image, ImageDraw

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, LearningModelSessionOptions
from winml_py._inputs.model import evaluate_to_tensors
from winml_py.compare.comparison import Comparer, fit_values
from winml_py.float16 import convert

ROOT = Path(__file__).parents[2]
PHOTOS = [Image.open(path).convert("RGB") for path in sorted((ROOT / "samples" / "pictures").glob("*.[jp][pn]g"))]
WAYS: dict[str, dict[str, Any]] = {
    "float32": {},
    "openvino": {"engine": "openvino"},
    "half": {"engine": "openvino", "provider_options": {"INFERENCE_PRECISION_HINT": "bf16"}},
    "float16 file": {},
    "1 thread": {"intra_op_num_threads": 1},
    "2 threads": {"intra_op_num_threads": 2},
}


def picture(number: int) -> Image.Image:
    """A crop, noise, a warp or a drawing, by turns."""
    rng = np.random.default_rng(number)
    photo, kind = PHOTOS[rng.integers(len(PHOTOS))].resize((160, 160)), number % 4
    left, top = rng.integers(0, 100, 2).tolist()
    if kind == 0:
        return photo.crop((left, top, left + 60, top + 60))
    if kind == 1:
        return Image.fromarray(rng.integers(0, 256, (*rng.integers(4, 64, 2), 3), np.uint8))
    if kind == 2:
        return photo.transform((96, 96), Image.Transform.QUAD, rng.uniform(0, 160, 8).tolist())
    paper, ink = (tuple(rng.integers(0, 256, 3).tolist()) for _ in range(2))
    drawn = Image.new("RGB", (64, 64), paper)
    ImageDraw.Draw(drawn).text((left / 5, top / 10), str(number // 4 % 10), ink, font_size=20 + left / 3)
    return drawn.rotate(left - 50)


def made(seed: int, channels: int, side: int) -> bytes:
    """Two layers with random weights, for bytes of pictures: near ties."""
    graph = f"""<ir_version: 8, opset_import: ["": 17]>
        made (float[1, {channels}, {side}, {side}] x) => (float[1, 10] scores) {{
            a = Flatten(x)
            b = MatMul(a, w)
            c = Tanh(b)
            d = MatMul(c, u)
            scores = Softmax(d)
        }}"""
    model, rng = onnx.parser.parse_model(graph), np.random.default_rng(seed)
    for name, shape, scale in (("w", (channels * side * side, 32), 1e-4), ("u", (32, 10), 0.5)):
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(0, scale, shape).astype(np.float32), name))
    return model.SerializeToString()


def compared(path: Path, pictures: list[Image.Image], folder: Path) -> bool:
    """Prints a row for each pair with float32; returns whether every settled answer stays."""
    convert(path, folder / "half.onnx", tolerance=0.2, force=True)
    first, results = LearningModel.load(path), dict[str, list[Any]]()
    for way, settings in WAYS.items():
        model, options = (
            LearningModel.load(folder / "half.onnx") if "file" in way else first,
            LearningModelSessionOptions(),
        )
        for name, value in settings.items():
            setattr(options, name, value)
        (feature,) = model.input_features
        with LearningModelSession(model, None, options) as session:
            sized = [each.resize((192, 48)) if -1 in feature.shape else each for each in pictures]
            values = ({feature.name: ImageFeatureValue.from_pil(each)} for each in sized)
            results[way] = [evaluate_to_tensors(session, fit_values(model, value)) for value in values]
    same, settled, by_twelve, difference = {}, {}, {}, {}
    for pair in combinations(WAYS, 2):
        answers, largest = [], 0.0
        for start in range(0, len(pictures), 12):
            comparer = Comparer(first)
            for both in zip(*(results[way][start : start + 12] for way in pair), strict=True):
                comparer.add("", both, 1e-3)
            comparison = comparer.comparison(({}, {}))
            answers += comparison.answers
            largest = max(largest, comparison.outputs[0].largest)
        assert len(answers) == len(pictures)
        difference[pair], same[pair] = largest, np.array([one.is_same for one in answers])
        by_twelve[pair] = np.array([one.is_settled for one in answers])
        settled[pair] = same[pair] & np.array([one.lead > 2 * largest for one in answers])
    total = 0
    for pair in [pair for pair in same if pair[0] == "float32"]:
        smaller = [same[o] for o in same if difference[o] <= difference[pair] and set(o) & set(pair)]
        lost, lost_by_twelve = (
            int((which & ~np.all(smaller, axis=0)).sum()) for which in (settled[pair], by_twelve[pair])
        )
        total += lost
        shares = f"{same[pair].mean():9.2%} {settled[pair].mean():9.2%} {lost:7}"
        twelve = f"{by_twelve[pair].mean():12.2%} {lost_by_twelve:7}"
        print(f"{path.stem[:22]:22} {pair[1]:13} {difference[pair]:10.1e} {shares} {twelve}", flush=True)
    return not total


def main() -> None:
    warnings.simplefilter("ignore")
    pictures = [picture(number) for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)]
    head = f"{'same':>9} {'settled':>9} {'differ':>7} {'by twelve':>12} {'differ':>7}"
    print(f"{'classifier':22} {'against':13} {'difference':>10} {head}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [ROOT / "models" / "digits.onnx", *(Path(rapidocr.__file__).parent / "models").glob("*cls*.onnx")]
        for seed, (channels, side) in enumerate([(3, 48), (1, 32)]):
            paths.append(folder / f"random {channels}x{side}x{side}.onnx")
            paths[-1].write_bytes(made(seed, channels, side))
        results = [compared(path, pictures, folder) for path in paths]
    if not all(results):
        sys.exit("A settled answer differs in a pair of no larger difference.")


if __name__ == "__main__":
    main()
