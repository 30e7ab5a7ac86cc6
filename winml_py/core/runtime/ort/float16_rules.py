"""What ONNX Runtime's own float16 converter knows of operators: taken from there, so that it stays true.

`ALWAYS_FLOAT_INPUTS`: the inputs of operators that are float32 in any model, by the operators' names.
`DEFAULT_OP_BLOCK_LIST`: the operators without kernels for float16.
`convert_np_to_float16`: the rounding of numbers, which keeps the smallest ones from becoming 0.
"""

from onnxruntime.transformers.float16 import ALWAYS_FLOAT_INPUTS as ALWAYS_FLOAT_INPUTS
from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST as DEFAULT_OP_BLOCK_LIST
from onnxruntime.transformers.float16 import convert_np_to_float16 as convert_np_to_float16
