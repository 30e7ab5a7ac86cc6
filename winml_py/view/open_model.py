"""A model that is open on the page: what it takes, and its session, in a separate process."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._examples import MAX_NUMBERS
from .._http import MAX_REQUEST_PIXELS
from .._values import make_free_options
from ..core.base.agreement import as_numpy
from ..core.base.arrays import Array
from ..core.base.async_operation import AsyncOperation
from ..core.base.child_process import is_available
from ..core.base.machine import read_total_memory
from ..core.base.messages import Facts
from ..core.base.winrt_object import private_state
from ..core.features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, ShapedDescriptor
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.contract import ImageContract
from ..core.model.model import LearningModel
from ..core.onnx_file.source import FileSource
from ..core.runtime.device import LearningModelDevice
from ..core.runtime.engine import Isolation
from ..core.session.result import LearningModelEvaluationResult
from ..core.session.session import LearningModelBinding, LearningModelSession
from ..enums import AsyncStatus, BitmapPixelFormat, TensorKind, TensorLayout
from ..errors import CanceledError, EvaluationTimeoutError, InvalidArgumentError, WinMLError

T = TypeVar("T")

GRACE_SECONDS = 5.0
"""The seconds that a stopped evaluation gets to end. A separate process is killed half a second later."""

POLL_SECONDS = 0.05
"""The seconds between two checks whether an evaluation was stopped."""

MEMORY_SHARE = 0.75
"""The share of this machine's memory for a model on the processor in a separate process."""


class Job:
    """An evaluation that somebody waits for, and that another thread may stop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_cancelled = False

    def cancel(self) -> None:
        """Stops the job, even if it has not begun."""
        self._is_cancelled = True

    def require_wanted(self) -> None:
        """Raises CanceledError if the job was stopped."""
        if self._is_cancelled:
            raise CanceledError("The evaluation was stopped.")

    def wait_for(self, operation: AsyncOperation[T]) -> T:
        """The result of an operation.

        Raises:
            CanceledError: the job was stopped.
            EvaluationTimeoutError: the time limit was reached.
        """
        deadline = time.monotonic() + self._seconds
        while not self._is_cancelled and time.monotonic() < deadline:
            if operation.wait(POLL_SECONDS) is not AsyncStatus.STARTED:
                return operation.get()
        operation.cancel()
        with suppress(WinMLError):
            operation.wait(GRACE_SECONDS)
        self.require_wanted()
        raise EvaluationTimeoutError(
            f"The model did not finish within {self._seconds:g} s and was stopped.",
            hint="Evaluate the model in a program, or with winml-py run.",
        )


class PictureOnDisk(NamedTuple):
    """The file of a picture; `is_here` if the file is the user's, not a copy."""

    path: str
    name: str
    is_here: bool
    width: int
    height: int

    def load(self) -> ImageFeatureValue:
        """Its pixels."""
        return ImageFeatureValue.load(self.path, max_pixels=MAX_REQUEST_PIXELS)


class Inputs(NamedTuple):
    """What a model is given, by the names of its inputs; pictures also as files, with their contracts."""

    values: dict[str, Any]
    pictures: dict[str, PictureOnDisk]
    contracts: dict[str, ImageContract]


class Evaluated(NamedTuple):
    """The result of an evaluation.

    Attributes:
        result: the outputs.
        tensors: copies of the bound values of each input that is a tensor or a picture.
        seconds: of each phase: bind, evaluate.
    """

    result: LearningModelEvaluationResult
    tensors: dict[str, Array]
    seconds: dict[str, float]


class OpenModel:
    """A model with its session, made when it is needed: in a separate process, unless a program passed one.

    Args:
        path: the model's file; "" if a program's own model has none.
        name: the name that the page shows.
        model: the model.
        device: where it runs, as in `winml-py run --device`.
        is_here: whether the file is the user's own, rather than a copy.
        session: a program's own session, which is never closed here.

    Attributes:
        is_isolated: whether the page goes on if the model ends the process that evaluates it.
        features: its inputs, by name.
        contracts: the initial contract of each input that can take a picture.
    """

    def __init__(
        self,
        path: str,
        name: str,
        model: LearningModel,
        device: str,
        *,
        is_here: bool = True,
        session: LearningModelSession | None = None,
    ) -> None:
        self.path = path
        self.name = name
        self.model = model
        self.device = device
        self.is_here = is_here
        self._program_session = session
        self._session = session
        self._lock = threading.Lock()  # one evaluation at a time
        # Another process has none of this one's functions, and a frozen program may have no Python to start.
        self.is_isolated = session is None and is_available() and not private_state(model).operators.functions
        self.features = {feature.name: feature for feature in model.input_features}
        contracts = {name: _find_initial_contract(feature) for name, feature in self.features.items()}
        self.contracts = {name: contract for name, contract in contracts.items() if contract is not None}

    def describe(self) -> Facts:
        """For JSON."""
        return {
            "name": self.name,
            "description": self.model.description,
            "is_isolated": self.is_isolated,
            "inputs": [self._describe_input(feature) for feature in self.features.values()],
            "outputs": [{"name": feature.name, "words": feature.describe()} for feature in self.model.output_features],
        }

    def _describe_input(self, feature: FeatureDescriptor) -> Facts:
        facts: Facts = {"name": feature.name, "words": feature.describe()}
        contract = self.contracts.get(feature.name)
        if contract is not None and isinstance(feature, ShapedDescriptor):
            sides = [feature.shape[axis] for axis in contract.axes()[1:]]
            facts["contract"] = contract.to_metadata()
            facts["is_stated"] = isinstance(feature, ImageFeatureDescriptor)
            facts["is_free"] = all(side < 0 for side in sides)
        return facts

    def require_file(self) -> str:
        """The path to the model's file; InvalidArgumentError if it has none."""
        if not os.path.isfile(self.path):
            raise InvalidArgumentError("This model has no file.", hint="Save the model, and load it from its path.")
        return self.path

    def evaluate(self, job: Job, inputs: Inputs) -> Evaluated:
        """Binds values, and evaluates, one job at a time.

        Raises:
            EngineLostError: the model's process ended.
            WinMLError: the session cannot be made, a value not bound, or the model not evaluated.
        """
        for name, contract in inputs.contracts.items():
            self._require_small_tensor(name, contract)
        while not self._lock.acquire(timeout=POLL_SECONDS):
            job.require_wanted()
        try:
            return self._evaluate(job, inputs)
        except WinMLError:
            if self._session is not None and self._session.is_lost:
                self.close()
            raise
        finally:
            self._lock.release()

    def _evaluate(self, job: Job, inputs: Inputs) -> Evaluated:
        if self._session is None:
            self._session = job.wait_for(self._make_session())
        binding = LearningModelBinding(self._session)
        started = time.perf_counter()
        for name, value in inputs.values.items():
            contract = inputs.contracts.get(name)
            binding.bind(name, value, {} if contract is None else {"ImageContract": contract})
        seconds = {"bind": time.perf_counter() - started}
        # Copied before the evaluation, in which an in-place operator may change them.
        tensors = {name: _copy_bound(binding, name, value) for name, value in inputs.values.items()}
        started = time.perf_counter()
        result = job.wait_for(self._session.evaluate_async(binding))
        seconds["evaluate"] = time.perf_counter() - started
        return Evaluated(result, {name: tensor for name, tensor in tensors.items() if tensor is not None}, seconds)

    def _require_small_tensor(self, name: str, contract: ImageContract) -> None:
        """Refuses a tensor for which the page would need gigabytes, before it is made."""
        feature = self.features[name]
        assert isinstance(feature, ShapedDescriptor)
        sides = [feature.shape[axis] for axis in contract.axes()[1:]]
        height, width = (max(pair) for pair in zip(sides, contract.size or (1, 1), strict=True))
        count = height * width * contract.channels
        if count > MAX_NUMBERS:
            raise InvalidArgumentError(
                f"The tensor for {name} would have {count:,} values, but the page can bind at most {MAX_NUMBERS:,}.",
                hint="Choose a smaller size, or bind the tensor from Python.",
            )

    def _make_session(self) -> AsyncOperation[LearningModelSession]:
        options = make_free_options()
        if self.is_isolated:
            memory = int(read_total_memory() * MEMORY_SHARE) if self.device == "cpu" else 0
            options.isolation = Isolation(max_memory=memory)
        return LearningModelSession.create_async(self.model, LearningModelDevice.find(self.device), options)

    @property
    def engine(self) -> str:
        """The name of the engine; "" if there is none."""
        return "" if self._session is None else self._session.engine

    def close(self) -> None:
        """Ends the session and its process, but not a program's own session. Calling it twice is harmless."""
        session = self._session
        self._session = self._program_session
        if session is not None and session is not self._program_session:
            session.close()


def _copy_bound(binding: LearningModelBinding, name: str, value: object) -> Array | None:
    """A copy of an input's numbers; None for strings, lists and maps."""
    if isinstance(value, ImageFeatureValue):
        return np.array(as_numpy(private_state(binding).bound.inputs[name]))
    return np.array(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None


def _find_initial_contract(feature: FeatureDescriptor) -> ImageContract | None:
    """An input's own contract, or Windows ML's rule; None if it takes no pictures.

    The page offers a picture for four dimensions, one or three channels, floats or bytes.
    """
    if isinstance(feature, ImageFeatureDescriptor):
        return feature.contract
    kinds = {TensorKind.FLOAT: None, TensorKind.FLOAT16: None, TensorKind.UINT8: TensorKind.UINT8}
    if not isinstance(feature, ShapedDescriptor) or len(feature.shape) != 4 or feature.tensor_kind not in kinds:
        return None
    for layout, channels in ((TensorLayout.NCHW, feature.shape[1]), (TensorLayout.NHWC, feature.shape[3])):
        if channels in (1, 3):
            order = BitmapPixelFormat.GRAY8 if channels == 1 else BitmapPixelFormat.BGR8
            return ImageContract(order, layout=layout, tensor_kind=kinds[feature.tensor_kind])
    return None


def find_model_file(model: LearningModel) -> str:
    """The file that a model was loaded from; "" if it has none, or has been disposed of."""
    try:
        source = private_state(model).open()
    except WinMLError:
        return ""
    return source.path if isinstance(source, FileSource) else ""
