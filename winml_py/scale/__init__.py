"""From one machine to many: one evaluation as a callable for engines that distribute work, such as Ray, Dask and Spark.

Example:
    >>> import numpy as np
    >>> from winml_py.scale import Evaluator
    >>> evaluate = Evaluator("models/digits.onnx", columns={"image": "path"})
    >>> batch = evaluate({"path": np.array(["samples/pictures/seven.png", "missing.png"])})
    >>> batch["probabilities"].shape, int(batch["probabilities"][0].argmax()), batch["error"][0]
    ((2, 10), 7, None)
    >>> batch["error"][1][:20]
    'PictureNotFoundError'
"""

from .evaluator import Evaluator

__all__ = ["Evaluator"]
