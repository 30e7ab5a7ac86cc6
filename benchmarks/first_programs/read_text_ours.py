import sys

from winml_py import BitmapPixelFormat, ImageContract, ImageFeatureValue, LearningModel, LearningModelSession
from winml_py import LearningModelPixelRange as PixelRange

path, picture = sys.argv[1:]
model = LearningModel.load(path)
model.contracts["x"] = ImageContract(BitmapPixelFormat.BGR8, PixelRange.ZERO_TO_ONE, mean=(0.5,) * 3, std=(0.5,) * 3)
result = LearningModelSession(model).evaluate_features({"x": ImageFeatureValue.load(picture)})
best = result.outputs[model.output_features[0].name].to_numpy()[0].argmax(axis=1)
characters = ["", *model.metadata["character"].split("\n"), " "]
print("".join(characters[now] for before, now in zip([0, *best], best, strict=False) if now != before))
