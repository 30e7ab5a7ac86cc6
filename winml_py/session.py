"""LearningModelSession: a model, compiled for a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .binding import LearningModelBinding
from .device import LearningModelDevice
from .errors import ClosedError, InvalidArgumentError
from .model import LearningModel
from .options import LearningModelSessionOptions, engine_options
from .result import LearningModelEvaluationResult
from .runtime.engine import Engine, Lease


class LearningModelSession:
    """A model compiled for a device.

    Sessions of the same model, device and equal options share one engine: one copy of the weights and one
    thread pool. A CPU session takes no lock: threads evaluate at the same time, each with its own binding.

    Args:
        model: the model; it may be disposed of once the session is made.
        device: where to run; the CPU by default.
        options: how to compile. Passing default options is not the same as passing none:
            see `LearningModelSessionOptions`.

    Raises:
        ModelDisposedError: the model has been disposed.
        CorruptModelError: the graph is invalid.
        ModelVersionError: the model's opset or IR version is newer than the runtime knows.
        NotSupportedError: the model uses operators that nobody here runs.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel, LearningModelSession
        >>> with LearningModelSession(LearningModel.load("models/digits.onnx")) as session:
        ...     result = session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
        ...     result.outputs["probabilities"].shape
        (1, 10)
    """

    def __init__(
        self,
        model: LearningModel,
        device: LearningModelDevice | None = None,
        options: LearningModelSessionOptions | None = None,
        /,
    ) -> None:
        self._lease: Lease | None = None
        self._model = model
        self._device = device if device is not None else LearningModelDevice()
        compiled_with = engine_options(options)
        source = model._open()
        self._lease = model._engines.lease(
            (self._device._key(), compiled_with),
            lambda: self._device._compile(source.engine_input(model._header), compiled_with),
        )
        self._options = self._lease.engine.options
        self._run_lock = self._device._session_lock()
        if options is not None and options.close_model_on_session_creation:
            model.dispose()

    @property
    def model(self) -> LearningModel:
        """The model it was made from; its properties stay readable."""
        return self._model

    @property
    def device(self) -> LearningModelDevice:
        """Where it runs."""
        return self._device

    def get_intra_op_num_threads(self) -> int:
        """Threads that work together on one operator."""
        return self._options.intra_op_num_threads

    def get_intra_op_thread_spinning(self) -> bool:
        """Whether those threads spin while they wait."""
        return self._options.intra_op_thread_spinning

    def evaluate(self, binding: LearningModelBinding, correlation_id: str = "", /) -> LearningModelEvaluationResult:
        """Runs the model on what is bound. All outputs are computed; bound ones are written in place.

        The same binding can be evaluated again: inputs are reused, bound outputs are written again.

        Args:
            binding: made for this session.
            correlation_id: given back in the result.

        Raises:
            ClosedError: the session has been closed.
            MissingInputError: an input has not been bound.
            SizeMismatchError: an output does not fit the memory it is bound to.
            EvaluationError: an operator failed; the message has the engine's words.
        """
        self._require_open()
        if binding._session is not self:
            raise InvalidArgumentError(
                "The binding was made for another session.", hint="Use LearningModelBinding(session) with this one."
            )
        return LearningModelEvaluationResult(correlation_id, binding._evaluate())

    def evaluate_features(
        self, features: Mapping[str, Any], correlation_id: str = "", /
    ) -> LearningModelEvaluationResult:
        """Binds every pair, inputs and outputs alike, and evaluates; raises as `bind` and `evaluate` do."""
        binding = LearningModelBinding(self)
        for name, value in features.items():
            binding.bind(name, value)
        return self.evaluate(binding, correlation_id)

    def close(self) -> None:
        """Frees the engine, unless another session shares it, when the last run in flight returns.

        Twice is harmless. Model, device and results stay readable.
        """
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    dispose = close

    def __enter__(self) -> LearningModelSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = " closed" if self._lease is None else ""
        return f"<LearningModelSession {self._model.name!r} on {self._device.kind.name}{closed}>"

    def _require_open(self) -> None:
        if self._lease is None:
            raise ClosedError(
                "The session has been closed.", hint="Create another from the model, or keep this one open."
            )

    def _engine(self) -> Engine:
        lease = self._lease
        if lease is None:
            self._require_open()
        assert lease is not None
        return lease.engine
