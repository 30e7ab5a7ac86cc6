import sys

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, vision

model, path, drawn = sys.argv[1:]
session = LearningModelSession(LearningModel.load(model))
picture = ImageFeatureValue.load(path)
found = vision.detections(session.evaluate_features({"image": picture}))
for one in found:
    print(f"{one.label} {one.score:.2f}", *one.box.round().astype(int))
found.draw(picture).save(drawn)
