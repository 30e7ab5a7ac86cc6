"""Lists the devices of this machine, evaluates a model on one of them, and explains the choice of its engine.

    python samples/devices.py [NAME]

NAME is "cpu", "gpu", "npu", or part of the name of a device or its provider. The default is the best GPU, or the CPU if
there is no GPU.
"""

import sys
from pathlib import Path

from winml_py import ImageFeatureValue, InvalidDeviceError, LearningModel, LearningModelDevice, LearningModelSession

ROOT = Path(__file__).parent.parent


def chosen(devices: list[LearningModelDevice]) -> LearningModelDevice:
    if len(sys.argv) > 1:
        return LearningModelDevice.find(sys.argv[1])
    return next((device for device in devices if device.hardware == "gpu"), devices[0])


def main() -> None:
    devices = LearningModelDevice.find_all()  # each has just run a small model
    for device in devices:
        half = ", has float16" if device.supports_float16 else ""
        print(f"{device.hardware}: {device.name}, by {device.provider}{half}")

    try:
        device = chosen(devices)
    except InvalidDeviceError as error:  # the message lists the devices
        sys.exit(str(error))
    model = LearningModel.load(ROOT / "models" / "digits.onnx")
    with LearningModelSession(model, device) as session:
        picture = ImageFeatureValue.load(ROOT / "samples" / "pictures" / "seven.png")
        scores = session.evaluate_features({"image": picture}).outputs["probabilities"].to_numpy()[0]
        print(f"on {device.name}: {scores.argmax()}, {scores.max():.4f}")
        print(session.explain())


if __name__ == "__main__":
    main()
