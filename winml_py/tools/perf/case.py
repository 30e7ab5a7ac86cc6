"""What is measured: a model, where it runs, and on what."""

from __future__ import annotations

from dataclasses import dataclass

from ...enums import Precision
from ...session.device import LearningModelDevice
from ...session.options import LearningModelSessionOptions


@dataclass(frozen=True)
class Case:
    """A model, where it runs, and on what.

    Attributes:
        model: the path of an .onnx file.
        inputs: files, as `winml-py run` takes them; none for made-up values.
        device: "cpu", or a name that `LearningModelDevice.find` finds.
        engine: as `LearningModelSessionOptions.engine`.
        precision: as `LearningModelSessionOptions.precision`.
        settings: a file that `LearningModelSessionOptions.load` reads, or "".
    """

    model: str
    inputs: tuple[str, ...] = ()
    device: str = "cpu"
    engine: str = "onnxruntime"
    precision: Precision = Precision.AUTO
    settings: str = ""

    def options(self) -> LearningModelSessionOptions:
        """The session's options: a free batch stays free."""
        options = LearningModelSessionOptions.load(self.settings) if self.settings else LearningModelSessionOptions()
        if not self.settings:
            options.batch_size_override = 0
            options.engine, options.precision = self.engine, self.precision
        return options

    def target(self) -> LearningModelDevice:
        """The device.

        Raises:
            InvalidDeviceError: there is none of that name.
        """
        return LearningModelDevice() if self.device == "cpu" else LearningModelDevice.find(self.device)
