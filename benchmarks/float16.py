"""Converts public models to float16: size, error, nodes that stayed in float32.

    python benchmarks/float16.py [--json FILE]

The models are ours and those in the wheels of onnx, rapidocr and magika; the inputs are example inputs. Targets: all
models convert to models that load; the size is at most 0.55 where weights dominate; the relative error is at most 1e-2,
and top-1 is the same.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _measure import arguments, at_least, at_most, report

from winml_py import LearningModel, LearningModelSession
from winml_py.float16 import convert

OURS = Path(__file__).parent.parent / "models"
INPUTS = {  # no example inputs exist for these, or the model needs other sizes
    "PP-OCRv6_det_small": ((1, 3, 64, 64), np.float32),
    "PP-OCRv6_rec_small": ((1, 3, 48, 320), np.float32),
    "ch_ppocr_mobile_v2.0_cls_mobile": ((1, 3, 48, 192), np.float32),
    "magika": ((1, 2048), np.int32),
}


def folder(package: str, *inside: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*inside)


def models() -> list[tuple[str, Path]]:
    found = [path for path in sorted(OURS.glob("*.onnx")) if not path.stem.endswith("_float16")]
    found += sorted(folder("onnx", "backend", "test", "data", "light").glob("*.onnx"))
    found += sorted(folder("rapidocr", "models").glob("*.onnx"))
    named = [(path.stem, path) for path in found]
    return named + [("magika", path) for path in sorted(folder("magika", "models").glob("*/model.onnx"))]


def inputs(name: str, model: LearningModel) -> dict[str, Any]:
    if name not in INPUTS:
        return {}
    shape, dtype = INPUTS[name]
    rng = np.random.default_rng(0)
    feature = model.input_features[0].name
    return {feature: rng.integers(0, 256, shape, dtype) if dtype == np.int32 else rng.standard_normal(shape, dtype)}


def weight_share(path: Path) -> float:
    """The share of the file that is float32 weights."""
    import onnx

    proto = onnx.load(path)
    return sum(weight.ByteSize() for weight in proto.graph.initializer if weight.data_type == 1) / proto.ByteSize()


def main() -> None:
    options = arguments(__doc__).parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, path in models():
            target = Path(temporary, "half.onnx")
            done = convert(path, target, inputs=inputs(name, LearningModel.load(path)))
            LearningModelSession(LearningModel.load(target)).close()
            kept = [f"{len(names)} {why}" for why, names in done.kept.items() if names]
            top1 = [output.top1 for output in done.outputs if output.top1 is not None]
            rows.append(
                {
                    "model": name,
                    "weights": weight_share(path),
                    "size": done.size_after / done.size_before,
                    "error": max(output.error for output in done.outputs),
                    "top-1": min(top1, default=1.0),
                    "nodes": done.nodes,
                    "stay float32": ", ".join(kept) or "-",
                }
            )
            print(rows[-1], file=sys.stderr)
    found = {
        "models": len(rows),
        "largest size, if weights are 90% of the file": max(row["size"] for row in rows if row["weights"] > 0.9),
        "largest error, %": max(row["error"] for row in rows) * 100,
        "minimum unchanged top-1, %": min(row["top-1"] for row in rows) * 100,
    }
    _, size, error, top1_kept = found
    bars = [
        at_most("size", found[size], 0.55),
        at_most(error, found[error], 1),
        at_least(top1_kept, found[top1_kept], 100),
    ]
    report({"float16": [found]}, options.json, bars)


if __name__ == "__main__":
    main()
