import json
import sys
import wave

import numpy as np
import onnxruntime

model, file = sys.argv[1:]
with wave.open(file) as recording:
    sound = np.frombuffer(recording.readframes(-1), "<i2") / np.float32(32768)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
labels = json.loads(session.get_modelmeta().custom_metadata_map["Labels"])
scores = session.run(None, {"sound": sound})[0][0]
for index in scores.argsort()[::-1][:3]:
    print(f"{labels[index]} {scores[index]:.3f}")
