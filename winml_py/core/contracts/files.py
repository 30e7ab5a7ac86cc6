"""What files state of a model: a contract in one file, or the parts that the layouts of published folders state."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob
from itertools import pairwise
from typing import Any

from ...errors import InvalidArgumentError, WinMLError
from ..base.atomic_files import is_same_file, require_folder
from ..base.messages import did_you_mean, logger
from ..imaging.contract import METADATA_KEYS, ImageContract
from ..onnx_file.source import FileSource
from . import huggingface, timm
from .config import Config, Source, make_config_error, prefix_errors, read_config
from .labels import labels_of
from .published import ANY_SIZE, Folder, Published, SeveralModelsError, find_model


def read_contract(source: Source, *, use_test_size: bool = False) -> ImageContract:
    """The contract that a file states.

    Args:
        source: Hugging Face's `preprocessor_config.json` or `processor_config.json`; timm's `config.json`, or the
            `pretrained_cfg` in it; or a JSON file with the keys of a model's metadata, as
            `json.dump(contract.to_metadata(), file)` writes it. Pass the file's path, an open file, or the contents of
            such a file. `LearningModel.load` reads a whole folder.
        use_test_size: for timm's, use `test_input_size` and `test_crop_pct` where the config states them.

    Raises:
        StorageNotFoundError: there is no such file.
        InvalidArgumentError: it is none of these, has an unknown key, or has an invalid word or number.
        NotSupportedError: the processor, a key or a value is unknown, or no contract does the same to a picture.

    Example:
        >>> from winml_py import read_contract
        >>> read_contract({"image_processor_type": "ViTImageProcessor"}).size
        (224, 224)
        >>> read_contract({"input_size": (3, 288, 288), "crop_pct": 1.0}).size
        (288, 288)
    """
    config = read_config(source)
    values = config.values
    if any(str(key).startswith("Image.") for key in values):
        return _parse_words(config)
    is_timm = isinstance(values.get("pretrained_cfg"), Mapping) or "input_size" in values
    if is_timm and "image_processor_type" not in values:
        return timm.make_contract(config, use_test_size)
    if values.keys() & {"image_processor_type", "feature_extractor_type", "image_processor"}:
        return huggingface.make_contract(config)
    raise InvalidArgumentError(
        f"{config.name}: No image contract found. There is no image_processor_type, no pretrained_cfg, and no key such "
        "as Image.Mean.",
        hint="Pass Hugging Face's preprocessor_config.json, timm's config.json, or a file from "
        'json.dump(ImageContract.imagenet().to_metadata(), open(path, "w")).',
    )


def _parse_words(config: Config) -> ImageContract:
    unknown = next((key for key in config.values if key not in METADATA_KEYS), None)
    if unknown is not None:
        raise InvalidArgumentError(
            f"{config.name}: Image contracts have no key {unknown!r}.",
            hint=did_you_mean(unknown, METADATA_KEYS),
        )
    wrong = next((key for key, word in config.values.items() if not isinstance(word, str)), None)
    if wrong is not None:
        raise InvalidArgumentError(
            f"{config.name}: the value of {wrong} is not text.", hint='Write text, for example "0.5,0.5,0.5".'
        )
    with prefix_errors(config.name):
        return ImageContract.from_metadata(config.values)


# The layouts of published folders: a function for each part that a layout's files state.


Parts = tuple[tuple[str, str, str, Callable[[Config, Folder], Any]], ...]
"""What the files of a layout may state. Each part is a name, a file in the folder, a key, and a function.

The names are "contract", "labels" and "metadata" (keys that the model's file lacks). A config without the key is of
another layout. The function takes the config, whose name is the
file's path, and the folder. Any error means that the file does not state it.
"""


def _require_order(config: Config, steps: Iterable[str], order: Sequence[str]) -> None:
    """Refuses steps that come twice or in another order, because a contract has each of them once."""
    for step, following in pairwise(step for step in steps if step in order):
        if order.index(following) <= order.index(step):
            raise make_config_error(config.name, f"no contract is known to match the step {following} after {step}")


def _format_numbers(numbers: Iterable[float]) -> str:
    """Numbers in the words of metadata."""
    return ",".join(f"{number:.17g}" for number in numbers)


# PaddleOCR and PaddleX: `inference.yml`, whose steps PaddleX's predictors run.


_FINDERS = re.compile(r"PP-OCRv\d+_(server|mobile|medium|small|tiny)_det")
"""The models whose longer side PaddleX limits. Of others that find text, it enlarges the shorter side first."""

_SCALES = ("1./255.", 1 / 255)


def _read_paddle_labels(config: Config, _: Folder) -> tuple[str, ...]:
    match config.values:
        case {"PostProcess": {"character_dict": [*characters]}}:
            return labels_of({"label_names": ["", *characters, " "]})  # as the decoder counts them
        case {"PostProcess": {"Topk": {"label_list": [*labels]}}}:
            return labels_of({"label_names": labels})
    return ()


def _read_paddle_contract(config: Config, _: Folder) -> ImageContract:
    is_finder = _FINDERS.fullmatch(config.values["Global"]["model_name"])
    words, shortest = {"Image.BitmapPixelFormat": "Rgb8", "Image.Kernel": "Linear"}, 0
    steps = config.values["PreProcess"]["transform_ops"]
    for step in steps:
        match step:
            case {"DecodeImage": {"img_mode": "BGR" | "RGB" as order, "channel_first": False}}:
                words["Image.BitmapPixelFormat"] = f"{order.title()}8"
            case {"DetResizeForTest": {"resize_long": int(side), **others}} if is_finder and not others:
                words["Image.Scaling"] = f"longest_side={side},enlarges=false,multiple=32,multiple_rounding=half_even"
            case {"ResizeImage": {"resize_short": int(shortest), **others}} if not others:
                words["Image.Scaling"] = f"shortest_side={shortest},rounding=half_even"
            case {"ResizeImage": {"size": [int(width), int(height)], **others}} if not others:
                words |= {"Image.Scaling": "stretch", "Image.Size": f"{height},{width}"}
            case {"CropImage": {"size": int(side), **others}} if not others and side <= shortest:
                words["Image.Size"] = f"{side},{side}"
            case {"NormalizeImage": {"mean": mean, "std": std, "order": "" | "hwc", "scale": scale}} if (
                scale in _SCALES
            ):
                words |= {"Image.Mean": _format_numbers(mean), "Image.Std": _format_numbers(std)}
                words["Image.NominalPixelRange"] = "Normalized_0_1"
            case {"RecResizeImg": {"image_shape": [3, int(height), int(width)], **others}} if (
                not others and "Image.Scaling" not in words
            ):
                words |= {"Image.Scaling": f"fit_height={height}x{width}", "Image.Pad": "127.5,127.5,127.5"}
                words["Image.NominalPixelRange"] = "Normalized_1_1"
            case {"ToCHWImage": _} | {"KeepKeys": _} | {"DetLabelEncode": _} | {"MultiLabelEncode": _}:
                pass
            case _:
                raise make_config_error(config.name, f"no contract is known to match the step {', '.join(step)}")
    same = {"DetResizeForTest": "ResizeImage", "RecResizeImg": "NormalizeImage"}
    names = [same.get(name, name) for step in steps for name in step]
    _require_order(config, names, ["DecodeImage", "ResizeImage", "CropImage", "NormalizeImage"])
    return ImageContract.from_metadata(words)


# MMDeploy: `pipeline.json`, whose transforms its SDK runs. An export has no class names.


_CORNER = "rounding=half_up,anchor=top_left"
_KERNELS = {"bilinear": "Linear", "bicubic": "Cubic", "area": "Area"}


def _read_mmdeploy_contract(config: Config, _: Folder) -> ImageContract:
    words, shortest, square = {"Image.BitmapPixelFormat": "Bgr8", "Image.Kernel": "Linear"}, 0, 0
    steps = config.values["pipeline"]["tasks"][0]["transforms"]
    for step in steps:
        match {"keep_ratio": False} | step:
            case {"type": "Resize", "size": [int(width), int(height)], "keep_ratio": keeps}:
                words["Image.Kernel"] = _KERNELS[step.get("interpolation", "bilinear")]
                if keeps:
                    short, long = sorted((width, height))
                    square = long if short == long else 0
                    words["Image.Scaling"] = f"shortest_side={short},limit={long},{_CORNER}"
                elif height == -1:
                    words["Image.Scaling"], shortest = f"shortest_side={width},crop_rounding=half_up", width
                else:
                    words |= {"Image.Scaling": "stretch", "Image.Size": f"{height},{width}"}
            case {"type": "CenterCrop", "crop_size": int(side)} if side <= shortest:
                words["Image.Size"] = f"{side},{side}"
            case {"type": "Normalize", "mean": mean, "std": std, "to_rgb": to_rgb}:
                words |= {"Image.Mean": _format_numbers(mean), "Image.Std": _format_numbers(std)}
                words["Image.BitmapPixelFormat"] = "Rgb8" if to_rgb else "Bgr8"
            case {"type": "Pad"} if "Image.Mean" in words:
                raise make_config_error(
                    config.name, "Pad comes after Normalize, and pads with a value between two levels"
                )
            case {"type": "Pad", "pad_to_square": True, "pad_val": {"img": [level, *others]}} if square and set(
                others
            ) <= {level}:
                words |= {"Image.Pad": f"{level:g},{level:g},{level:g}", "Image.Size": f"{square},{square}"}
            case {"type": "LoadImageFromFile"} if step.get("color_type", "color").startswith("color"):
                pass
            case {"type": "ImageToTensor" | "DefaultFormatBundle" | "Collect"}:
                pass
            case _:
                raise make_config_error(config.name, f"no contract is known to match the step {step['type']}")
    _require_order(config, [step["type"] for step in steps], ["Resize", "CenterCrop", "Pad", "Normalize"])
    return ImageContract.from_metadata(words)


# Roboflow: `environment.json`, `model_type.json` and `class_names.txt`, as its inference server keeps them.


_YOLO = re.compile(r"yolov?(5|8|9|10|11|12)\w?(-seg|-pose)?")
"""The models whose bytes the server divides by 255, and no more; others have a mean and a std that no file states."""


def _read_roboflow_contract(config: Config, folder: Folder) -> ImageContract:
    model = folder.read_config("model_type.json").values.get("model_type")
    if not _YOLO.fullmatch(str(model)):
        raise make_config_error(config.name, f"model_type.json specifies {model}, but only YOLO models are supported")
    words = {"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "Normalized_0_1", "Image.Kernel": "Linear"}
    for step, settings in json.loads(config.values["PREPROCESSING"]).items():
        match step, settings:
            case ("auto-orient", _) | (_, {"enabled": False}):
                pass
            case "resize", {"width": int(width), "height": int(height), "format": "Stretch to"}:
                words |= {"Image.Scaling": "stretch", "Image.Size": f"{height},{width}"}
            case _:
                raise make_config_error(config.name, f"no contract is known to match the step {step}")
    return ImageContract.from_metadata(words)


# Ultralytics: `metadata.yaml`, which has the keys that its exporter writes into ONNX models.


def _read_ultralytics_metadata(config: Config, _: Folder) -> dict[str, str]:
    values = config.values if config.values["author"] == "Ultralytics" else {}
    return {str(key): str(value) for key, value in values.items() if _is_flat(value)}


def _is_flat(value: object) -> bool:
    """Whether nothing is nested deeper than the exporter does; references in YAML can nest without end."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return not any(isinstance(item, (dict, list)) for item in items)


# All layouts.


def _read_labels(config: Config, _: Folder) -> tuple[str, ...]:
    """The class names in a file of text, or in a config of Hugging Face or timm."""
    return labels_of(config.name)


PARTS: Parts = (
    # timm's models on the Hugging Face Hub.
    ("contract", "config.json", "pretrained_cfg", lambda config, _: timm.make_contract(config)),
    ("contract", "config.json", "input_size", lambda config, _: timm.make_contract(config)),
    ("labels", "config.json", "pretrained_cfg", _read_labels),
    # Hugging Face's transformers and Optimum.
    ("contract", "preprocessor_config.json", "", lambda config, _: huggingface.make_contract(config)),
    ("contract", "processor_config.json", "", lambda config, _: huggingface.make_contract(config)),
    ("labels", "config.json", "id2label", _read_labels),
    ("metadata", "metadata.yaml", "author", _read_ultralytics_metadata),
    # Azure Custom Vision's export for Windows ML, and others. The model has its contract.
    ("labels", "labels.txt", "", _read_labels),
    ("contract", "inference.yml", "", _read_paddle_contract),
    ("labels", "inference.yml", "PostProcess", _read_paddle_labels),
    ("contract", "pipeline.json", "pipeline", _read_mmdeploy_contract),
    ("contract", "environment.json", "PREPROCESSING", _read_roboflow_contract),
    ("labels", "class_names.txt", "", _read_labels),
)
"""What the files of all layouts may state. Of two files that state the same part, the first one counts."""

STATED_FILES = {*(file for _, file, _, _ in PARTS), "model_type.json", "test_data_set_*/*"}
"""The files of a folder that may state something of its model, and of samples with its answers, as patterns."""


def read_published(source: str | os.PathLike[str], model: str) -> Published:
    """What a folder states of a model in it. The log has what contradicts itself or cannot be read.

    Args:
        source: the folder.
        model: the path to the model.

    Raises:
        InvalidArgumentError: a file leads out of the folder.
    """
    folder = Folder(source)
    parts: dict[str, Any] = {}
    sources = {"model": os.path.relpath(model, source)}
    refusal = None
    for name, file, key, read in PARTS:
        if not folder.find(file, ANY_SIZE):
            continue
        try:
            config = folder.read_config(file)
            value = read(config, folder) if not key or key in config.values else None
        except Exception as error:  # the files are untrusted: one with which anything is wrong states nothing
            if name == "contract":
                message = f"{file}: The contract cannot be used: {type(error).__name__}: {error}"
                refusal = error if isinstance(error, WinMLError) else InvalidArgumentError(message)
            logger.info("%s provides no %s: %s", source, name, error)
            continue
        if value and parts.setdefault(name, value) != value:
            logger.warning("%s: The %s in %s and in %s differ. The latter are used.", source, name, file, sources[name])
        elif value:
            sources.setdefault(name, file)
    return Published(folder.path, parts, sources, refusal)


# The files that a model consists of, which an output must not replace.


def find_model_files(source: str | os.PathLike[str]) -> Iterator[str]:
    """The model's file, those with its weights, and those in a published folder that state something of the model.

    Of a folder of several models, all models and their weights; of another file or folder, only its path.
    """
    path = os.fsdecode(source)
    models = [path]
    if os.path.isdir(path):
        try:
            models = [find_model(path)]
            yield from (os.path.join(path, name) for files in STATED_FILES for name in glob(files, root_dir=path))
        except SeveralModelsError:
            models = [os.path.join(path, name) for name in glob("*.onnx", root_dir=path)]
        except WinMLError:  # a folder of pictures
            pass
    for model in models:
        yield model
        if os.path.isfile(model):  # a pipe would wait for its writer
            with suppress(WinMLError):  # no ONNX model
                opened = FileSource.open(model)[0]
                yield from (os.path.join(opened.folder, name) for name in opened.list_data_files())


def require_destination(destination: str | os.PathLike[str], force: bool, *sources: str | os.PathLike[str]) -> None:
    """Refuses a new file without a folder; and unless `force`, one that would replace a file that it is made from, by
    whatever path or link: InvalidArgumentError.
    """
    require_folder(destination)
    files = () if force or not os.path.exists(destination) else sources
    if any(is_same_file(destination, file) for source in files for file in find_model_files(source)):
        raise InvalidArgumentError(
            f"{os.fspath(destination)}: This file is also the source, so saving would overwrite it.",
            hint="Choose another destination, or pass force=True to overwrite the source.",
        )
