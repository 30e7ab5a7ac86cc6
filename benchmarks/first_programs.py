"""How long the programs are that people write first: with winml_py, and with raw ONNX Runtime, Pillow and OpenCV.

    python benchmarks/first_programs.py [--json FILE]

Each task has two programs in `first_programs/`, which must print the same. Lines without code are not counted.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import tokenize
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from _measure import arguments, report
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "benchmarks" / "first_programs"
RATE, NOTES = 16_000, ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"]
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def shapes(path: Path) -> Path:
    picture = Image.new("RGB", (500, 320), (225, 222, 210))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((60, 70, 190, 200), (200, 60, 50))
    pen.polygon([(300, 60), (430, 90), (400, 220), (270, 190)], (40, 90, 160))
    picture.save(path)
    return path


def text(path: Path) -> Path:
    picture = Image.new("RGB", (520, 52), "white")
    ImageDraw.Draw(picture).text((8, 4), "Load, bind, evaluate 1234", "black", ImageFont.load_default(36))
    picture.save(path)
    return path


def recording(path: Path) -> Path:
    """A second of an A and, softly, of a C."""
    time = np.arange(RATE) / RATE
    sound = 0.5 * np.sin(2 * np.pi * 440 * time) + 0.2 * np.sin(2 * np.pi * 261.63 * time)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    return path


def notes(path: Path) -> Path:
    """A model that gives the part of each note of an octave in a second of sound."""
    frequency = 440 * 2 ** ((np.arange(12) - 9) / 12)
    waves = np.exp(2j * np.pi * frequency * np.arange(RATE)[:, None] / RATE)
    weights = {"cos": waves.real.astype(np.float32), "sin": waves.imag.astype(np.float32)}
    nodes = [
        *(helper.make_node("MatMul", ["sound", part], [f"{part}_sum"]) for part in weights),
        *(helper.make_node("Mul", [f"{part}_sum"] * 2, [f"{part}_power"]) for part in weights),
        helper.make_node("Add", ["cos_power", "sin_power"], ["power"]),
        helper.make_node("ReduceSum", ["power"], ["total"], keepdims=1),
        helper.make_node("Div", ["power", "total"], ["parts"]),
        helper.make_node("Unsqueeze", ["parts", "axis"], ["notes"]),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in (weights | {"axis": np.int64([0])}).items()]
    sound = helper.make_tensor_value_info("sound", TensorProto.FLOAT, [RATE])
    found = helper.make_tensor_value_info("notes", TensorProto.FLOAT, [1, len(NOTES)])
    graph = helper.make_graph(nodes, "notes", [sound], [found], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"Labels": json.dumps(NOTES)})
    path.write_bytes(model.SerializeToString())
    return path


def tasks(folder: Path) -> dict[str, list[Path]]:
    """The arguments of the programs for each task."""
    spec = find_spec("rapidocr")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install rapidocr: its wheel has the model that reads text")
    (reader,) = (Path(spec.origin).parent / "models").glob("*_rec_*.onnx")
    models = ROOT / "models"
    return {
        "classify": [models / "digits.onnx", ROOT / "samples" / "pictures" / "seven.png", models / "digits.labels.txt"],
        "detect": [models / "shapes.onnx", shapes(folder / "shapes.png"), folder / "drawn.png"],
        "read_text": [reader, text(folder / "text.png")],
        "listen": [notes(folder / "notes.onnx"), recording(folder / "sound.wav")],
    }


def printed(program: Path, arguments: list[Path]) -> list[str]:
    command = [sys.executable, "-W", "error::UserWarning", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def code_lines(program: Path) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(program.read_text()).readline)
    return len(
        {line for token in tokens if token.type not in SILENT for line in range(token.start[0], token.end[0] + 1)}
    )


def measure() -> dict[str, dict[str, object]]:
    """For each task the lines of both programs, and what they print."""
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for task, words in tasks(Path(folder)).items():
            ours, raw = PROGRAMS / f"{task}_ours.py", PROGRAMS / f"{task}_raw.py"
            lines = printed(ours, words)
            if lines != printed(raw, words):
                raise SystemExit(f"{task}: the two programs do not print the same")
            found[task] = {"ours": code_lines(ours), "raw": code_lines(raw), "printed": lines}
    return found


def main() -> None:
    options = arguments(__doc__).parse_args()
    rows = [
        {"program": task, "lines with winml_py": result["ours"], "without": result["raw"]}
        for task, result in measure().items()
    ]
    report({"first_programs": rows}, options.json)


if __name__ == "__main__":
    main()
