import sys

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, labels_of

model, picture, labels = sys.argv[1:]
session = LearningModelSession(LearningModel.load(model))
result = session.evaluate_features({"image": ImageFeatureValue.load(picture)})
for found in result.top_k(3, labels_of(labels)):
    print(f"{found.label} {found.score:.3f}")
