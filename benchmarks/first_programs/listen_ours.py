import sys
import wave

import numpy as np

from winml_py import LearningModel, LearningModelSession

model, file = sys.argv[1:]
with wave.open(file) as recording:
    sound = np.frombuffer(recording.readframes(-1), "<i2") / np.float32(32768)
result = LearningModelSession(LearningModel.load(model)).evaluate_features({"sound": sound})
for found in result.top_k(3):
    print(f"{found.label} {found.score:.3f}")
