"""A model of a service. A request makes its session, which is closed after some time without requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from .._examples import list_inputs
from .._interpretation import Classes
from ..core.base.winrt_object import private_state
from ..core.features.descriptors import FeatureDescriptor, ShapedDescriptor
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.runtime.device import LearningModelDevice
from ..core.session.options import LearningModelSessionOptions
from ..core.session.result import LearningModelEvaluationResult
from ..core.session.session import LearningModelBinding, LearningModelSession
from ..errors import (
    ClosedError,
    CorruptModelError,
    EngineLostError,
    EvaluationError,
    InvalidArgumentError,
    NotSupportedError,
)
from .monitoring import Exchange, escape_line, logger

Evaluate = Callable[[Mapping[str, Any]], LearningModelEvaluationResult]
"""Binds the values of inputs and outputs by their names, and evaluates them."""


def ignore_error(task: asyncio.Task[Any]) -> None:
    """Reads the error of a task that nobody may wait for, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


@dataclass(eq=False)
class ServedModel:
    """A model, and its session while there is one. All methods belong to the event loop's thread.

    Attributes:
        name: its name in addresses.
        load: gives the model and the options of its sessions. Each new session calls it, because the file may be a new
            one.
        device: where it runs.
        idle: the seconds after its last use in which its session is closed; 0 for never.
        labels: the names of the classes; empty for the model's own.
        inputs: its inputs, with the sizes that the options fix, once it has been compiled.
        was_loaded: whether it could be compiled, the last time.
        count_loss: called when the process of an isolated engine has ended, and another one is made.
        classes: how outputs are shown.
        map_keys: the classes of each output whose rows are maps of classes to scores, in the order of its columns.

    Raises:
        InvalidArgumentError: not such a name, or not such seconds.
        NotSupportedError: an input or output that KServe's protocol has no words for.
    """

    name: str
    load: Callable[[], tuple[LearningModel, LearningModelSessionOptions]]
    device: LearningModelDevice | None
    idle: float = 0
    labels: Sequence[str] = ()
    inputs: Sequence[FeatureDescriptor] = ()
    session: LearningModelSession | None = None
    was_loaded: bool = False
    count_loss: Callable[[], object] = lambda: None
    _users: int = 0
    _making: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise InvalidArgumentError(f"A model name must not be empty or contain a slash, got {self.name!r}.")
        if not self.idle >= 0:
            raise InvalidArgumentError(f"idle must be 0 or more seconds, got {self.idle!r}.")
        self._adopt(*self.load())

    def _adopt(self, model: LearningModel, options: LearningModelSessionOptions) -> None:
        self.map_keys = _read_map_keys(model)
        self.model, self.options = model, options
        self.classes = Classes(None, self.labels or model.labels)

    @property
    def is_ready(self) -> bool:
        """Whether it could be compiled, and is not being compiled again."""
        return self.was_loaded and self._making is None

    def start(self) -> None:
        """Begins to make the session, unless there is one whose process, if any, has not ended."""
        if self.session is not None and self.session.is_lost:
            logger.warning("%s: The engine was lost. Creating another one.", escape_line(self.name))
            self.count_loss()
            self.unload()
        if self.session is None and self._making is None:
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(ignore_error)

    async def _open(self, attempts: int = 3) -> LearningModelSession:
        self._adopt(*await asyncio.to_thread(self.load))
        try:
            return await LearningModelSession.create_async(self.model, self.device, self.options)
        except CorruptModelError:  # perhaps because the file was replaced between the two steps
            if attempts == 1:
                raise
        return await self._open(attempts - 1)

    async def _make(self) -> None:
        self.was_loaded = False
        try:
            self.session = await self._open()
            self.was_loaded, self.inputs = True, list_inputs(self.session)
        except InvalidArgumentError as error:  # the server's options are no client's mistake
            raise EvaluationError(f"The model cannot be compiled: {error.message}", hint=error.hint) from error
        finally:
            self._making = None
            self._await_idle()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[LearningModelSession]:
        """The session, which stays at least until the block ends. WinMLError if it cannot be made."""
        self._users += 1
        try:
            self.start()
            if self.session is None and self._making is not None:
                await asyncio.shield(self._making)  # a caller that gives up leaves the work to the others
            assert self.session is not None
            yield self.session
        finally:
            self._users -= 1
            self._await_idle()

    def _await_idle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.idle:
            self._timer = asyncio.get_running_loop().call_later(self.idle, self.unload)

    def unload(self) -> None:
        """Closes the session, and with it the engine and its memory, unless it is in use."""
        if self.session is not None and (self._users == 0 or self.session.is_lost):
            self.session.close()
            self.session = None

    async def evaluate(self, threads: Executor, work: Callable[[Evaluate], Response], exchange: Exchange) -> Response:
        """Evaluates a request when its turn has come. Cancelling it stops the evaluation at the next node.

        Args:
            threads: where it is evaluated.
            work: reads the request, evaluates it once, and makes the answer; called in a thread.
            exchange: the request's.

        Raises:
            EngineLostError: the process of the engine ended in this evaluation.
            WinMLError: as the work and the evaluation do.
        """

        def run(session: LearningModelSession) -> Response:
            def evaluate(values: Mapping[str, Any]) -> LearningModelEvaluationResult:
                binding = private_state(LearningModelBinding(session))
                for name, value in values.items():
                    binding.bind(name, value, files=False)  # a client names no file of this machine
                exchange.stop.require_not_requested()
                if session.is_lost:
                    raise EngineLostError("The engine's process ended during another evaluation.")
                exchange.begin("evaluating")
                return binding.evaluate(stop=exchange.stop)

            exchange.begin("preparing")
            return work(evaluate)

        while True:
            exchange.begin("waiting")
            async with self.use() as session:
                try:
                    return await asyncio.get_running_loop().run_in_executor(threads, run, session)
                except asyncio.CancelledError:
                    exchange.stop.request()
                    del work  # with the body: what was cancelled stays in the pool until a thread comes to it
                    raise
                # The process ended in another request's evaluation, before this one began: try again.
                except EngineLostError:
                    if exchange.phase == "evaluating":
                        raise
                except ClosedError:  # a third request found that session lost, and closed it
                    if session is self.session:
                        raise


def _read_map_keys(model: LearningModel) -> dict[str, list[Any]]:
    """The classes of each output that a ZipMap makes of scores, as in scikit-learn's classifiers.

    Raises:
        NotSupportedError: another input or output that is no tensor, or one of a type that numpy does not have.
    """
    features = (*model.input_features, *model.output_features)
    others = {
        feature.name: feature
        for feature in features
        if not isinstance(feature, ShapedDescriptor) or feature.tensor_kind not in TENSOR_CLASSES
    }
    if not others:
        return {}
    from onnx.helper import get_attribute_value

    content = private_state(model)
    makers = {name: node for node in content.open().read_graph(content.header).nodes for name in node.output}
    keys: dict[str, list[Any]] = {}
    for name, feature in others.items():
        if not getattr(feature, "has_type", True):
            raise NotSupportedError(
                f"The file does not specify the type of the output {name}, and KServe clients need this type.",
                hint="To add the type, run onnx.save(onnx.shape_inference.infer_shapes(model), path).",
            )
        node = makers.get(name)
        lists = map(get_attribute_value, node.attribute) if node is not None and node.op_type == "ZipMap" else ()
        keys[name] = [key.decode() if isinstance(key, bytes) else key for values in lists for key in values]
        if not keys[name] or len(set(keys[name])) < len(keys[name]):
            raise NotSupportedError(
                f"KServe's protocol has only tensors, but the model variable {name} is: {feature.describe()}.",
                hint="Export the model with tensors in its place; for scikit-learn: options={'zipmap': False}.",
            )
    return keys
