"""Whether answers change between two models, engines, devices or precisions, and whether they are settled.

Example:
    >>> from winml_py.compare import compare
    >>> from winml_py.perf import Case
    >>> first = Case("models/digits.onnx", inputs=("samples/pictures/seven.png",))
    >>> print(compare(first, Case("models/digits_float16.onnx")))
    The answer is the same, 1 settled.
"""

from .comparison import Answer, Comparison, OutputDifference, compare

__all__ = ["Answer", "Comparison", "OutputDifference", "compare"]
