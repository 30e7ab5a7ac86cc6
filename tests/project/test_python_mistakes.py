"""What Python programs get wrong, and the error that each mistake gets: what was expected, what came, what to write.

The rows are what programs wrote. Where an error says what to write instead, and that is more than a word, the row has
it, too: it must work. `tests/cli/test_mistakes.py` is this for the command line.
"""

from __future__ import annotations

import json
import pydoc
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from helpers.models import FLOAT, INT64, STRING, data, tensor, unary
from helpers.paths import MODELS, PICTURES
from helpers.sessions import open_binding, open_session
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    LearningModelSessionOptions,
    SoftwareBitmap,
    VideoFrame,
    WinMLError,
    errors,
    read_contract,
)
from winml_py.results import AsyncOperation

DIGITS, SEVEN = str(MODELS / "digits.onnx"), PICTURES / "seven.png"
RGB8, BGRA8 = BitmapPixelFormat.RGB8, BitmapPixelFormat.BGRA8
PIXELS, FRAME = np.zeros((2, 2, 3), np.uint8), VideoFrame(BGRA8, 2, 2)
VIEW = SoftwareBitmap(BGRA8, 2, 2).get_read_only_view()
TWO_SIZES = ImageFeatureValue([VideoFrame(BGRA8, 4, 3), VideoFrame(BGRA8, 2, 5)])
WIDE_GRAY = Image.new("I", (2, 2), 4000)
IMAGE = unary(shape=("n", 3, 2, 2), denotation="IMAGE")
PAIRS, TWO_FLOATS = unary(shape=("n", 2)), unary(shape=[2])
INTEGER = unary(shape=[1], element=INT64)
TWO_WORDS = unary(shape=[2], element=STRING)
TWO_BOOLEANS = unary(shape=[2], element=TensorProto.BOOL)
FREE = unary(shape=("n", 3, "h", "w"), denotation="IMAGE")


def bind(model: bytes, value: Any, properties: Any = None) -> None:
    open_binding(model).bind("x", value, properties)


def evaluate(model: bytes, **values: Any) -> Any:
    return open_session(model).evaluate_features(values)


def list_of_floats() -> bytes:
    """A model that takes a sequence of tensors."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [None]))
    node = helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)
    return data([node], [helper.make_value_info("x", kind)], [tensor("y", [None])])


def sound_and_rate() -> bytes:
    """A model whose second input is a number without dimensions."""
    ends = [tensor("x", [1, 2]), tensor("rate", [], INT64)]
    return data([helper.make_node("Identity", ["x"], ["y"])], ends, [tensor("y", [1, 2])])


def strided_view() -> SoftwareBitmap:
    return SoftwareBitmap.from_array(np.zeros((4, 4, 4), np.uint8)[:, ::2], BGRA8)


def invert(count: int) -> Any:
    """The result of a model of pictures."""
    ends = [[tensor(name, ["n", 3, 2, 2], FLOAT, "IMAGE")] for name in "xy"]
    content = data([helper.make_node("Neg", ["x"], ["y"])], *ends)
    return evaluate(content, x=ImageFeatureValue([FRAME] * count))


class Operation(AsyncOperation[int]):
    """An operation whose one callback is set."""

    def __init__(self) -> None:
        super().__init__(lambda _: 1)
        self.completed = lambda *_: None


IMPORTS = """
from dataclasses import replace
from io import BytesIO
import winml_py
from winml_py import *
from winml_py.compare import compare
from winml_py.experimental import LearningModelBuilder
from winml_py.winrt.windows.graphics.imaging import BitmapBufferAccessMode
"""


@pytest.fixture
def names(digits: LearningModelSession, tmp_path: Path) -> dict[str, Any]:
    """What the rows use."""
    program = globals() | {"model": digits.model, "session": digits, "binding": LearningModelBinding(digits)}
    exec(IMPORTS, program)
    program["OPERATION"] = digits.evaluate_features_async({"image": ImageFeatureValue.load(SEVEN)})

    def save_array() -> Path:
        np.save(tmp_path / "x.npy", np.zeros((1, 1, 28, 28), np.float32))
        return tmp_path / "x.npy"

    program["save_array"] = save_array
    return program


TAUGHT = (
    # Making objects
    ("winml_py.LearningModelSesion", "no attribute 'LearningModelSesion'. Did you mean 'LearningModelSession'?"),
    ("LearningModel('digits.onnx')", "cannot be created from a path directly. Call LearningModel.load(path)"),
    (
        "LearningModelSession(DIGITS)",
        f"Load the model first: LearningModelSession(LearningModel.load({DIGITS!r}))",
        "LearningModelSession(LearningModel.load(DIGITS))",
    ),
    ("session(str(SEVEN))", "Call session.evaluate_features({name: value}).outputs."),
    ("LearningModelSession(model, LearningModelDeviceKind.CPU)", "Pass LearningModelDevice(LearningModelDevice"),
    ("LearningModelSession(model, LearningModelDeviceKind.GPU)", "LearningModelDevice(LearningModelDeviceKind.GPU)"),
    ("LearningModelDevice(LearningModelDeviceKind.GPU)", "No installed package can use a GPU"),
    ("LearningModelDevice.find('gpu')", "run pip install 'winml-py[gpu]'"),
    ("LearningModelDevice.find('npu')", "run pip install 'winml-py[intel]'"),
    ("LearningModelDevice.find('NVIDIA CUDA')", "`pip install --force-reinstall 'onnxruntime-gpu[cuda,cudnn]'`"),
    ("LearningModelDevice.find('directml')", "`pip install --force-reinstall onnxruntime-directml`"),
    ("LearningModelDevice('cpu')", "Call LearningModelDevice.find('cpu').", "LearningModelDevice.find('cpu')"),
    ("setattr(LearningModelSessionOptions().tuning, 'memory_aren', False)", "cannot assign to field 'memory_aren'"),
    ("LearningModelSession(model, 'cpu')", 'Pass LearningModelDevice.find("cpu")'),
    ("LearningModelSession(model, LearningModelSessionOptions())", "Call LearningModelSession(model, options=options)"),
    ("LearningModelSession(model, None, 3)", "got int. Pass LearningModelSessionOptions()"),
    ("LearningModelBinding(model)", "Call LearningModelBinding(session), where session = LearningModelSession(model)"),
    ("ImageContract('BGR8')", "Pass BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8 or BitmapPixelFormat.GRAY8"),
    ("ImageContract.imagenet().with_pixel_format(BitmapPixelFormat.GRAY8)", "a mean and std for each colour channel"),
    ("model.contracts.__setitem__('image', ImageContract.imagenet())", "set the contract's pixel_format to GRAY8."),
    (
        "setattr(LearningModelSessionOptions(), 'tuning', {'foo': 1})",
        "'foo'. See help(LearningModelSessionOptions).",
    ),
    (
        "setattr(LearningModelSessionOptions(), 'isolation', {'foo': 1})",
        "'foo'. See help(LearningModelSessionOpt",
    ),
    ("winml_py.operators.Relu([[1.0, 2.0], [3.0]])", "Give all rows the same length."),
    ("LearningModelBuilder.create(17).inputs.add_constant('c', [[1, 2], [3]])", "Give all rows the same length."),
    # Files
    (
        "LearningModel.load('https://a.com/b.onnx')",
        "This is a network address, but only files can be read. Download the file",
    ),
    (
        "LearningModel.load(MODELS / 'digitz.onnx')",
        f"Model file not found. Did you mean {DIGITS}?",
        "LearningModel.load(DIGITS)",
    ),
    (
        "LearningModel.load(MODELS, file='digitz.onnx')",
        "There is no digitz.onnx in this folder. It contains digits.onnx, blur.onnx, digits_batch.onnx, "
        'digits_float16.onnx, edges.onnx. To load one, pass its name, for example file="digits.onnx".',
        "LearningModel.load(MODELS, file='digits.onnx')",
    ),
    (
        "LearningModel.load(MODELS)",
        f'Choose one: {MODELS / "blur.onnx"}, or LearningModel.load(folder, file="blur.onnx").',
        "LearningModel.load(MODELS / 'blur.onnx')",
        "LearningModel.load(MODELS, file='blur.onnx')",
    ),
    ("labels_of('a\\0.txt')", " Write one name per line."),
    ("labels_of('a\\0.json')", " Check the file."),
    ("ImageFeatureValue.load(PICTURES / 'sevn.png')", f"no such picture. Did you mean {SEVEN}?"),
    ("next(iter(session.evaluate_many(MODELS.parent / 'modelz'))).outputs", f"folder. Did you mean {MODELS}?"),
    ("read_contract({'image_processor_type': 'ViTImageProcesor'})", "did you mean ViTImageProcessor?"),
    ("read_contract({'image_processor_type': 'DinoImageProcessor'})", "is not known; known are Beit, Bit,"),
    # Making pictures
    ("ImageFeatureValue('a.png')", "Expected VideoFrame objects, got str. For a file, call ImageFeatureValue.load"),
    ("ImageFeatureValue.load(b'')", "Expected a picture, got 0 bytes. Pass a picture file's path or contents"),
    ("ImageFeatureValue.load('')", "Expected a picture, got an empty path. Pass a picture file's path"),
    ("ImageFeatureValue.load(b'ab')", "Data of 2 bytes is not a picture that can be decoded: no decoder"),
    (
        "ImageFeatureValue.load(save_array())",
        "not a picture that can be decoded: it is an array. Bind numpy.load(path).",
        "session.evaluate_features({'image': np.load(save_array())})",
    ),
    (
        "ImageFeatureValue.load(b'\\0\\0\\0\\x20ftypisom' + bytes(9))",
        "it is a video. Pass VideoReader(path) to evaluate_man",
    ),
    ("ImageFeatureValue.load(b'%PDF-1.7')", "it is a PDF file. Save its pages as pictures first."),
    ("ImageFeatureValue.from_pil(5)", "Expected a Pillow image, got int"),
    ("ImageFeatureValue.from_software_bitmap('a.png')", "Expected a SoftwareBitmap, got str"),
    ("ImageFeatureValue.from_array(None, RGB8)", "OpenCV's imread returns None if it cannot read"),
    ("ImageFeatureValue.from_array(PIXELS)", "RGB8 for arrays from Pillow"),
    (
        "ImageFeatureValue.from_array(PIXELS.astype(np.float32))",
        "Expected an array of uint8 or uint16, got 2x2x3",
    ),
    (
        "ImageFeatureValue.from_array(PIXELS, BGRA8)",
        "a uint8 array of height x width x 4, got 2x2x3 of uint8.",
    ),
    ("SoftwareBitmap.from_array(PIXELS)", "BGR8 for OpenCV"),
    (
        "strided_view().lock_buffer(BitmapBufferAccessMode.READ)",
        "SoftwareBitmap.copy()",
        "SoftwareBitmap.copy(strided_view()).lock_buffer(BitmapBufferAccessMode.READ)",
    ),
    (
        "strided_view().get_read_only_view().copy_from_buffer(bytes(64))",
        "SoftwareBitmap.copy(bitmap)",
        "SoftwareBitmap.copy(strided_view().get_read_only_view()).copy_from_buffer(bytes(64))",
    ),
    ("VIEW.copy_to(VIEW)", "Pass a copy: SoftwareBitmap.copy(bitmap).", "VIEW.copy_to(SoftwareBitmap.copy(VIEW))"),
    ("FRAME.copy_to_async(FRAME, (0, 0, 1, 1)).get()", "got tuple. Pass BitmapBounds(x, y, width, height)."),
    # Binding pictures
    ("bind(IMAGE, FRAME, {'BitmapPixelFormat': RGB8})", "ImageFeatureValue.from_array(array, pixel_format)"),
    (
        "bind(IMAGE, np.zeros((3, 4, 6), np.uint8), {'BitmapPixelFormat': RGB8})",
        "For RGB8, expected a uint8 array of height x width x 3, got 3x4x6 of uint8. Convert the array",
        "bind(IMAGE, np.zeros((3, 4, 6), np.uint8).transpose(1, 2, 0), {'BitmapPixelFormat': RGB8})",
    ),
    (
        "bind(IMAGE, ImageFeatureValue.from_array(np.zeros((1, 3, 2, 2), np.float32), RGB8))",
        "binding.bind(name, array)",
        "bind(IMAGE, np.zeros((1, 3, 2, 2), np.float32))",
    ),
    (
        "bind(FREE, VideoFrame(BGRA8, 300, 300), [1])",
        '{"BitmapBounds": [0, 0, 224, 224]}',
        'bind(FREE, VideoFrame(BGRA8, 300, 300), {"BitmapBounds": [0, 0, 224, 224]})',
    ),
    ("binding.bind('image', str(SEVEN), ImageContract())", 'Pass {"ImageContract": contract}'),
    ("bind(IMAGE, FRAME, {'ImageContract': 'imagenet'})", "ImageContract.imagenet()"),
    (
        "bind(FREE, FRAME, {'ImageContract': ImageContract.imagenet()})",
        "ImageContract(size=(224, 224))",
        "bind(FREE, FRAME, {'ImageContract': replace(ImageContract.imagenet(), size=(224, 224))})",
    ),
    (
        "bind(FREE, TWO_SIZES)",
        "ImageContract(size=(height, width))",
        "bind(FREE, TWO_SIZES, {'ImageContract': ImageContract(size=(8, 8))})",
    ),
    (
        "bind(FREE, WIDE_GRAY)",
        'bind image.point(lambda level: level * 255 / white).convert("L")',
        "bind(FREE, WIDE_GRAY.point(lambda level: level * 255 / 4000).convert('L'))",
    ),
    ("evaluate(unary('Neg', [1, 3, 8, 8]), x=np.zeros((8, 8, 3), np.uint8))", "contracts['x'] = ImageContract.imagene"),
    (
        "session.evaluate_features({'image': [ImageFeatureValue.load(SEVEN)] * 2})",
        "Use session.evaluate_many",
    ),
    ("session.evaluate_features({'image': [str(SEVEN), str(SEVEN)]})", "ImageFeatureValue.load(path)"),
    ("session.evaluate_many(PIXELS)", "pass [array]", "session.evaluate_many([PIXELS])"),
    # Binding numbers
    (
        "binding.bind('image', np.zeros((28, 28), np.float32))",
        "Expected rank 4, got 2. Bind array[None, None].",
        "binding.bind('image', np.zeros((28, 28), np.float32)[None, None])",
    ),
    (
        "binding.bind('image', np.zeros((1, 1, 28, 28), np.uint8))",
        "ImageFeatureValue.from_array(array[0].transpose(1, 2, 0), BitmapPixelFormat.GRAY8)",
    ),
    ("bind(INTEGER, {1})", "TensorInt64Bit.from_numpy(array)"),
    ("bind(INTEGER, [2**63, 1])", "whole numbers from -9223372036854775808 to 9223372036854775807"),
    ("bind(TWO_FLOATS, {'a': 1})", "or a list of numbers from -3.40282e+38 to 3.40282e+38"),
    ("bind(TWO_FLOATS, np.ma.masked_array(np.zeros(2, np.float32), [0, 1]))", "array.filled(value)"),
    ("ImageFeatureValue.from_array(np.ma.masked_array(PIXELS), RGB8)", "array.filled(value)"),
    ("bind(INTEGER, 16000.0)", "bind int(16000.0), or TensorInt64Bit.from_numpy(array)"),
    ("bind(TWO_FLOATS, np.zeros(2))", "array.astype(np.float32)"),
    (
        "bind(TWO_WORDS, np.zeros(2))",
        "array.astype(str)",
        "bind(TWO_WORDS, np.zeros(2).astype(str))",
    ),
    (
        "bind(TWO_BOOLEANS, np.zeros(2))",
        "array.astype(np.bool)",
        "bind(TWO_BOOLEANS, np.zeros(2).astype(np.bool))",
    ),
    ("evaluate(unary('Neg', [1, 4]), x=np.zeros((1, 4), np.int16))", "array.astype(np.float32) / 32768"),
    (
        "evaluate(sound_and_rate(), x=np.zeros((1, 2), np.float32), rate=np.array([16000]))",
        "bind the number itself, not a list or an array",
        "evaluate(sound_and_rate(), x=np.zeros((1, 2), np.float32), rate=16000)",
    ),
    ("bind(list_of_floats(), {1})", "Bind a list", "bind(list_of_floats(), [np.float32([1])])"),
    ("bind(PAIRS, [[1, 2], [3]])", "got list of list"),
    ("bind(PAIRS, [[1, 'a']])", "or a list of numbers from -3.40282e+38 to 3.40282e+38, with rows of equal length."),
    ("binding.bind('image', [0.0, None])", "Bind an ImageFeatureValue, a VideoFrame, a Pillow image or an array."),
    ("binding.bind('image', None)", "OpenCV's imread returns None"),
    ("bind(PAIRS, [[[1, 2]], [3]])", "got list of list"),
    ("bind(PAIRS, [[1, 2, 3]])", "Dimension 1 is 3, not 2"),
    # Evaluating
    ("session.evaluate(binding, 0.5)", "Pass a time limit by name: timeout=0.5"),
    ("session.evaluate_features({}, 0.5)", "Pass a time limit by name: timeout=0.5"),
    ("session.evaluate(None)", "Expected a LearningModelBinding"),
    ("session.evaluate_features([1])", "Expected a dict of input names and values"),
    ("session.evaluate_features(ImageFeatureValue.load(SEVEN))", "Pass {'image': value}."),
    ("session.run(None, {})", "Call session.evaluate_features({name: value}).outputs."),
    (
        "open_session(MODELS / 'digits_batch.onnx', engine=None).evaluate_features("
        "{'image': np.zeros((4, 1, 28, 28), np.float32)})",
        "set options.batch_size_override = 0",
    ),
    ("next(iter(session.evaluate_many('picsss'))).outputs", "picsss: There is no such picture or folder."),
    ("setattr(Operation(), 'completed', print)", "add_done_callback", "Operation().add_done_callback(print)"),
    # Results
    ("OPERATION.outputs", "To get the result, write `await operation` or operation.get().", "OPERATION.get().outputs"),
    ("OPERATION['probabilities']", "or operation.get().", "OPERATION.get()['probabilities']"),
    ("list(OPERATION)", "or operation.get().", "list(OPERATION.get())"),
    ("OPERATION.result()", "To get the result, write `await operation` or operation.get().", "OPERATION.get()"),
    ("OPERATION.get().outputs[0]", "Pass a name: 'probabilities'."),
    (
        "OPERATION.get()['probabilities'].save('x.png')",
        "Save the values with np.save(path, tensor.to_numpy()).",
        "np.save(BytesIO(), OPERATION.get()['probabilities'].to_numpy())",
    ),
    (
        "invert(1).top_k()",
        "y is a picture. Save it with result['y'].save(\"y.png\").",
        "invert(1)['y'].save(BytesIO(), kind='PNG')",
    ),
    (
        "invert(2).top_k()",
        "y is a picture. Save it with result['y'][0].software_bitmap.save(\"y.png\").",
        "invert(2)['y'][0].software_bitmap.save(BytesIO(), kind='PNG')",
    ),
    ("session.evaluate_features({'image': SEVEN})['probabilites']", "probabilites"),
    ("TensorFloat.from_numpy(np.zeros(2, np.float32))[0]", "Write tensor.to_numpy()[...]."),
    ("TensorFloat.from_numpy(np.zeros(2, np.float32)).argmax()", "Write tensor.to_numpy().argmax."),
    (
        "evaluate(unary('Neg', [1, 84, 21]), x=np.zeros((1, 84, 21), np.float32)).top_k(5)",
        "For a detector, decode the boxes first.",
    ),
    ("winml_py.vision.detections(None)", "Expected a LearningModelEvaluationResult, got NoneType"),
    ("winml_py.vision.segmentation(None)", "has no attribute 'segmentation'"),
    ("winml_py.vision.masks(None)", "Expected a LearningModelEvaluationResult, got NoneType"),
    # Tools
    ("compare(DIGITS, DIGITS)", "Expected a LearningModelSession, got str"),
    ("winml_py.perf.measure(DIGITS)", "Expected a LearningModelSession, got str"),
    ("winml_py.authoring.write_contract(DIGITS, 'out.onnx', 'imagenet')", "Expected an ImageContract, got str"),
    ("winml_py.authoring.build_in(DIGITS, 'out.onnx', 'imagenet')", "Expected an ImageContract, got str"),
    ("winml_py.authoring.check_samples(DIGITS)", "Expected a LearningModelSession, got str"),
)
"""A mistake, the words of its error that teach, and perhaps what these words say to write."""


@pytest.mark.parametrize("row", TAUGHT, ids=lambda row: row[0])
def test_a_mistake_is_told_with_what_to_do(row: tuple[str, ...], names: dict[str, Any]) -> None:
    mistake, words, *remedy = row
    with pytest.raises((WinMLError, AttributeError, TypeError, KeyError), match=re.escape(words)):
        eval(mistake, names)
    for expression in remedy:
        eval(expression, names)


ODD = (
    (0.5, 1.0, "ZERO_TO255", "Black becomes -0.5 and white 254.5", "ZERO_TO_ONE"),
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "ZERO_TO255", "Black becomes -2.118 and white 1111", "ZERO_TO_ONE"),
    (0.1307, 0.3081, "ZERO_TO255", "Black becomes -0.4242 and white 827.2", "ZERO_TO_ONE"),
    ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), "ZERO_TO_ONE", "-2.118 and white -2.101", "ZERO_TO255"),
    (127.5, 127.5, "MINUS_ONE_TO_ONE", "Black becomes -1.008 and white -0.9922", "ZERO_TO255"),
    (0, 255, "ZERO_TO_ONE", "Black becomes 0 and white 0.003922", "ZERO_TO255"),
)
"""Mean, std and a range that they are not for; what the warning says, and the range that it says to state."""


def bind_twice(session: LearningModelSession, place: str, contract: ImageContract) -> None:
    """Binds pictures with a contract that is stated in some place."""
    if place != "bind":
        session.model.contracts["x"] = contract
    for _ in range(2):
        if place == "stream":
            list(session.evaluate_many([FRAME, FRAME]))
        else:
            properties = {"ImageContract": contract} if place == "bind" else None
            LearningModelBinding(session).bind("x", FRAME, properties)


@pytest.mark.parametrize("place", ["bind", "program", "stream"])
@pytest.mark.parametrize(("mean", "std", "stated", "words", "meant"), ODD)
def test_a_mean_for_another_range_is_told_once(
    mean: Any, std: Any, stated: str, words: str, meant: str, place: str
) -> None:
    contract = ImageContract(RGB8, LearningModelPixelRange[stated], mean, std)
    with pytest.warns(errors.MissingContractWarning, match=f"{words}.+LearningModelPixelRange.{meant}") as told:
        bind_twice(open_session(FREE), place, contract)
    assert len(told) == 1
    bind_twice(open_session(FREE), place, replace(contract, pixel_range=LearningModelPixelRange[meant]))


def test_a_std_for_another_range_than_the_mean_is_told() -> None:
    with pytest.warns(errors.MissingContractWarning, match="No range fits its mean and std"):
        bind_twice(open_session(FREE), "bind", ImageContract(RGB8, mean=127.5, std=0.5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"factor": 2}, "Black becomes 0 and white 510.+ For factor of ZERO_TO_ONE, .+Range.ZERO_TO_ONE"),
        ({"mean": 0.5, "factor": -2}, "Black becomes 1 and white -509.+ For mean and factor of ZERO_TO_ONE"),
        ({"pixel_range": LearningModelPixelRange.ZERO_TO_ONE, "factor": 1 / 255}, "For factor of ZERO_TO255"),
        ({"factor": 1e-4}, "Black becomes 0 and white 0.0255.+ No range fits its factor"),
    ],
)
def test_a_factor_for_another_range_is_told(fields: dict[str, Any], words: str) -> None:
    with pytest.warns(errors.MissingContractWarning, match=words):
        bind_twice(open_session(FREE), "bind", ImageContract(RGB8, **fields))


USUAL = (
    *(getattr(ImageContract, preset)() for preset in ("imagenet", "inception", "yolo", "clip")),
    *map(ImageContract, (RGB8, BitmapPixelFormat.BGR8, BitmapPixelFormat.GRAY8)),
    ImageContract(RGB8, mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375)),
    ImageContract(mean=(104, 117, 123)),
    ImageContract(mean=(103.939, 116.779, 123.68), std=1 / 0.017),
    ImageContract(mean=127.5, std=128),
    ImageContract(std=255),
    ImageContract(BitmapPixelFormat.GRAY8, LearningModelPixelRange.ZERO_TO_ONE, mean=0.1307, std=0.3081),
    ImageContract(RGB8, LearningModelPixelRange.ZERO_TO_ONE, mean=0.03, std=0.1),
    ImageContract(RGB8, LearningModelPixelRange.ZERO_TO_ONE, mean=(0.4488, 0.4371, 0.404)),
    ImageContract(RGB8, LearningModelPixelRange.MINUS_ONE_TO_ONE, mean=0.5, std=0.5),
    ImageContract(RGB8, LearningModelPixelRange.ZERO_TO_ONE, mean=1, std=-1),
)
"""What published models have."""


@pytest.mark.parametrize("contract", USUAL, ids=repr)
def test_contracts_of_published_models_are_bound_without_a_warning(contract: ImageContract) -> None:
    channels = contract.channels
    model = unary(shape=(1, channels, 8, 8), denotation="IMAGE")
    LearningModelBinding(open_session(model)).bind("x", FRAME, {"ImageContract": contract})


def test_help_explains_every_session_option() -> None:
    text = pydoc.plain(pydoc.render_doc(LearningModelSessionOptions))
    for name in LearningModelSessionOptions().to_dict():
        assert re.search(rf"^ \|  (?:{name}|{name.removesuffix('s')}_overrides?)\n \|      \S.*", text, re.MULTILINE), (
            name
        )
    assert (
        " |  profiling\n |      Whether the time of each node is recorded, for `session.end_profiling(path)`." in text
    )


def test_a_contract_is_written_as_the_error_says(tmp_path: Path) -> None:
    with pytest.raises(WinMLError) as info:
        read_contract({})
    assert 'json.dump(ImageContract.imagenet().to_metadata(), open(path, "w"))' in info.value.hint
    with (tmp_path / "contract.json").open("w") as file:
        json.dump(ImageContract.imagenet().to_metadata(), file)
    assert read_contract(tmp_path / "contract.json") == ImageContract.imagenet()


REFUSED = (
    "open_binding(unary()).bind(['x'], np.zeros(1, np.float32))",
    "SoftwareBitmap(5, 1, 1)",
    "SoftwareBitmap(BGRA8, 1 << 20, 1 << 20)",
    "SoftwareBitmap.from_array(PIXELS, 99)",
    "SoftwareBitmap.load('')",
    r"SoftwareBitmap.load('a\0b')",
    "SoftwareBitmap(BGRA8, 2, 2).save('nowhere/at/all.png')",
    "bind(unary(shape=(1, 3, 0, 0), denotation='IMAGE'), FRAME)",
    "bind(unary(shape=(1, 3, 1 << 40, 1 << 40), denotation='IMAGE'), FRAME)",
    "LearningModel.load(None)",
    "TensorFloat.create([float('inf')])",
    "TensorFloat.create([1.7, 2])",
    "TensorFloat.create([1 << 50]).to_numpy()",
    "TensorFloat.create_from_array([2], None)",
    "TensorFloat.create_from_array([1], [None])",
    "TensorFloat.create_from_array([1], [True])",
    "TensorInt64Bit.create_from_array([1], [1.5])",
    "TensorBoolean.create_from_array([1], [2])",
    "TensorString.create_from_array([1], 5)",
    "TensorFloat.create_from_buffer([1], 5)",
    "TensorFloat.create_from_iterable([1], 5)",
)


@pytest.mark.parametrize("mistake", REFUSED)
def test_what_cannot_be_is_one_of_our_errors(mistake: str, names: dict[str, Any]) -> None:
    with pytest.raises(WinMLError):
        eval(mistake, names)
