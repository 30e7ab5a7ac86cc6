import sys

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, vision

model, picture, drawn = sys.argv[1:]
session = LearningModelSession(LearningModel.load(model))
found = vision.detections(session.evaluate_features({"image": ImageFeatureValue.load(picture)}))
for one in found:
    print(f"{one.label} {one.score:.2f}", *one.box.round().astype(int))
found.draw(picture).save(drawn)
