import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

path, picture = sys.argv[1:]
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
line = ImageOps.exif_transpose(Image.open(picture)).convert("RGB")
line = line.resize((int(line.width * 48 / line.height), 48), Image.Resampling.BICUBIC)
pixels = np.asarray(line, np.float32)[:, :, ::-1].transpose(2, 0, 1)
best = session.run(None, {"x": (pixels[None] / 255 - 0.5) / 0.5})[0][0].argmax(axis=1)
characters = ["", *session.get_modelmeta().custom_metadata_map["character"].split("\n"), " "]
print("".join(characters[now] for before, now in zip([0, *best], best, strict=False) if now != before))
