"""Fixes free dimensions by their names when it creates a session.

    python samples/named_dimensions.py [PICTURE]

edges.onnx takes pictures of any size, and its dimensions have names. If a session fixes the sizes, the engine can plan
its memory in advance. The session then scales pictures of other sizes, and refuses tensors of other sizes. This helps a
camera or a service whose pictures all have the same size.
"""

import sys
from pathlib import Path

from winml_py import (
    BitmapPixelFormat,
    ImageFeatureValue,
    LearningModel,
    LearningModelSession,
    LearningModelSessionOptions,
    VideoFrame,
)

ROOT = Path(__file__).parent.parent
WIDTH, HEIGHT = 320, 240


def edges(session: LearningModelSession, frame: VideoFrame) -> str:
    picture = session.evaluate_features({"image": frame}).outputs["result"].to_pil().convert("RGB")
    levels = picture.tobytes()
    return f"{picture.width}x{picture.height}, mean level {sum(levels) / len(levels):.2f}"


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else ROOT / "samples" / "pictures" / "cat.jpg"
    whole = ImageFeatureValue.load(path).video_frame
    small = VideoFrame(BitmapPixelFormat.BGRA8, WIDTH, HEIGHT)
    whole.copy_to(small)  # the centre, scaled

    model = LearningModel.load(ROOT / "models" / "edges.onnx")
    print("named:", *filter(None, model.input_features[0].dimension_names))
    with LearningModelSession(model) as free:
        print("free, whole picture:", edges(free, whole))
        print("free, small picture:", edges(free, small))

    options = LearningModelSessionOptions()
    options.override_named_dimension("width", WIDTH)
    options.override_named_dimension("height", HEIGHT)
    with LearningModelSession(model, None, options) as fixed:
        print("fixed, small picture:", edges(fixed, small))
        print("fixed, whole picture:", edges(fixed, whole))


if __name__ == "__main__":
    main()
