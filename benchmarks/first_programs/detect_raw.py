import json
import sys

import cv2
import numpy as np
import onnxruntime
from PIL import Image, ImageDraw, ImageOps

model, picture, drawn = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
labels = json.loads(session.get_modelmeta().custom_metadata_map["Labels"])
side = session.get_inputs()[0].shape[2]
whole = ImageOps.exif_transpose(Image.open(picture)).convert("RGB")
scale = side / max(whole.size)
width, height = round(whole.width * scale), round(whole.height * scale)
left, top = (side - width) // 2, (side - height) // 2
square = Image.new("RGB", (side, side), (114, 114, 114))
small = cv2.resize(np.asarray(whole), (width, height), interpolation=cv2.INTER_LINEAR)
square.paste(Image.fromarray(small), (left, top))
tensor = np.asarray(square, np.float32).transpose(2, 0, 1)[None] / 255
rows = session.run(None, {"image": tensor})[0][0].T
scores, classes = rows[:, 4:].max(axis=1), rows[:, 4:].argmax(axis=1)
corners = np.concatenate([rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2], axis=1)
corners = (corners - [left, top, left, top]) / ([width / whole.width, height / whole.height] * 2)
corners = corners.clip(0, [*whole.size, *whole.size])
sizes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
pen = ImageDraw.Draw(whole)
for index in cv2.dnn.NMSBoxesBatched(sizes, scores, classes, 0.25, 0.45):
    label = f"{labels[classes[index]]} {scores[index]:.2f}"
    print(label, *corners[index].round().astype(int))
    pen.rectangle(corners[index].tolist(), outline="red", width=3)
    pen.text(corners[index, :2].tolist(), label, "red")
whole.save(drawn)
