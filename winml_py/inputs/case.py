"""A case: a model, where it runs, and on which inputs."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..enums import LearningModelDeviceKind, Precision
from .examples import NOTHING_STATED, StatedSizes
from .model import load_model

EXAMPLE = "example inputs"
"""What reports name in the place of an input, where values are made up."""

_KINDS = {
    "cpu": LearningModelDeviceKind.CPU,
    "gpu-high-performance": LearningModelDeviceKind.DIRECTX_HIGH_PERFORMANCE,
    "gpu-min-power": LearningModelDeviceKind.DIRECTX_MIN_POWER,
}
"""Devices that are named by what they are for."""


@dataclass(frozen=True)
class Case:
    """A model, where it runs, and on which inputs.

    Attributes:
        model: the path of an .onnx file.
        inputs: files, as `winml-py run` takes them; none for example inputs.
        device: "cpu", "gpu-high-performance", "gpu-min-power", or a name that `LearningModelDevice.find` finds.
        engine: as `LearningModelSessionOptions.engine`.
        precision: as `LearningModelSessionOptions.precision`.
        settings: a file that `LearningModelSessionOptions.load` reads, or "". It replaces engine and precision.
        contract: how pictures become the inputs that it fits; None for what the model states.
        sizes: what is stated of sizes that the model leaves free: sessions fix them.
    """

    model: str
    inputs: tuple[str, ...] = ()
    device: str = "cpu"
    engine: str | None = None
    precision: Precision = Precision.AUTO
    settings: str = ""
    contract: ImageContract | None = None
    sizes: StatedSizes = NOTHING_STATED

    def load(self) -> LearningModel:
        """The model, with the contract attached.

        Raises:
            WinMLError: it cannot be loaded, or the contract fits no input.
        """
        return load_model(self.model, self.contract)

    def options(self, model: LearningModel) -> LearningModelSessionOptions:
        """The session's options. A free batch stays free, unless a size is stated for it.

        Raises:
            InvalidArgumentError: the model has no such dimension, or the file holds no options.
        """
        options = LearningModelSessionOptions.load(self.settings) if self.settings else LearningModelSessionOptions()
        if not self.settings:
            options.batch_size_override = 0
            options.engine, options.precision = self.engine, self.precision
        for name, shape in self.sizes.shapes(model.input_features).items():
            options.override_input_shape(name, shape)
        return options

    def find_device(self) -> LearningModelDevice:
        """The device.

        Raises:
            InvalidDeviceError: there is no device of that name.
        """
        kind = _KINDS.get(self.device.casefold())
        return LearningModelDevice.find(self.device) if kind is None else LearningModelDevice(kind)
