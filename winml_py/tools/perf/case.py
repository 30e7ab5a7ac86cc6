"""What is measured: a model, where it runs, and on which inputs."""

from __future__ import annotations

from dataclasses import dataclass

from ...enums import Precision
from ...session.device import LearningModelDevice
from ...session.options import LearningModelSessionOptions


@dataclass(frozen=True)
class Case:
    """A model, where it runs, and on which inputs.

    Attributes:
        model: the path of an .onnx file.
        inputs: files, as `winml-py run` takes them; none for example inputs.
        device: "cpu", or a name that `LearningModelDevice.find` finds.
        engine: as `LearningModelSessionOptions.engine`.
        precision: as `LearningModelSessionOptions.precision`.
        settings: a file that `LearningModelSessionOptions.load` reads, or "". It replaces engine and precision.
    """

    model: str
    inputs: tuple[str, ...] = ()
    device: str = "cpu"
    engine: str = "onnxruntime"
    precision: Precision = Precision.AUTO
    settings: str = ""

    def options(self) -> LearningModelSessionOptions:
        """The session's options. A free batch stays free."""
        if self.settings:
            return LearningModelSessionOptions.load(self.settings)
        options = LearningModelSessionOptions()
        options.batch_size_override = 0
        options.engine, options.precision = self.engine, self.precision
        return options

    def target(self) -> LearningModelDevice:
        """The device.

        Raises:
            InvalidDeviceError: there is no device of that name.
        """
        return LearningModelDevice() if self.device == "cpu" else LearningModelDevice.find(self.device)
