import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model, picture, labels = sys.argv[1:]
names = Path(labels).read_text().split()
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
gray = ImageOps.exif_transpose(Image.open(picture)).convert("L")
small = ImageOps.fit(gray, (28, 28), Image.Resampling.BICUBIC)
scores = session.run(None, {"image": np.asarray(small, np.float32)[None, None] / 255})[0][0]
for index in scores.argsort()[::-1][:3]:
    print(f"{names[index]} {scores[index]:.3f}")
