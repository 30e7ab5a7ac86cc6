"""Whether answers change between two models, engines, devices or precisions, and whether they are settled.

Example:
    >>> from winml_py import ImageFeatureValue, LearningModel
    >>> from winml_py.compare import compare
    >>> models = [LearningModel.load(f"models/{name}.onnx") for name in ("digits", "digits_float16")]
    >>> print(compare(*models, {"image": ImageFeatureValue.load("samples/pictures/seven.png")}))
    The answer is the same, 1 settled.
"""

from .comparison import Answer, Comparison, OutputDifference, compare

__all__ = ["Answer", "Comparison", "OutputDifference", "compare"]
