"""LearningModelSessionOptions: how a session is compiled; each option is a `Setting`, and a file can hold them all."""

from __future__ import annotations

import inspect
import json
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar, overload

from ...enums import Precision, Weights
from ...errors import InvalidArgumentError
from ..base.arguments import (
    get_source_name,
    is_text,
    make_open_error,
    open_text,
    require_bool,
    require_member,
    require_type,
    require_whole_number,
)
from ..base.atomic_files import require_folder, write_atomically
from ..base.machine import count_usable_cores, is_confined
from ..base.messages import did_you_mean
from ..base.winrt_object import Object
from ..runtime.engine import LOG_SEVERITIES, MAX_THREADS, EngineOptions, Isolation, Tuning

T = TypeVar("T")
S = TypeVar("S")


class Setting(Generic[T, S]):
    """An option: an attribute that checks what a program sets. Programs read a `T`, and set an `S`.

    Args:
        default: makes the value of new options.
        check: converts what a program sets, or a file has, or raises a WinMLError. It gets the value and the option's
            name.
    """

    def __init__(self, default: Callable[[], T], check: Callable[[S, str], T]) -> None:
        self.default = default
        self._check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        """The text below the attribute in its class, which Python does not keep, for `help()`."""
        with suppress(OSError):  # a program that was packed without sources
            text = re.search(rf'    {self._name} = .*?\n    """(.*?)"""\n', inspect.getsource(self._owner), re.DOTALL)
            return inspect.cleandoc(text[1]) if text else None
        return None

    @overload
    def __get__(self, options: None, owner: type) -> Setting[T, S]: ...
    @overload
    def __get__(self, options: object, owner: type) -> T: ...
    def __get__(self, options: object | None, owner: type) -> Setting[T, S] | T:
        if options is None:
            return self
        value: T = vars(options)[self._name]
        return value

    def __set__(self, options: object, value: S) -> None:
        try:
            vars(options)[self._name] = self._check(value, self._name)
        except TypeError as error:  # a mapping with other keys than the fields of a class
            raise InvalidArgumentError(f"{self._name}: {error}.", hint=f"See help({self._owner.__name__}).") from error

    def read_json(self, value: Any) -> Any:
        """What a program sets for a value from JSON, which has enums by their names.

        Raises:
            InvalidArgumentError: the enum has no such member.
        """
        kind = type(self.default())
        if not issubclass(kind, IntEnum):
            return value
        words = {member.name.lower(): member for member in kind}
        if value not in words:
            raise InvalidArgumentError(f"{self._name} has no value {value!r}.", hint=did_you_mean(value, words))
        return words[value]


SCHEMA, KIND = 1, "session-options"
"""What the file of session options says of itself."""

_DEFAULTS = EngineOptions(intra_op_num_threads=1)
"""Where the defaults of settings that the engine gets unchanged are written."""


def _require_uint32(value: object, name: str) -> int:
    return require_whole_number(value, name, 0, (1 << 32) - 1)


def _check_dimensions(sizes: Mapping[str, int], name: str) -> Mapping[str, int]:
    require_type(sizes, Mapping, 'Pass a dict, for example {"batch": 4}.')
    for key in sizes:
        if not is_text(key):
            raise InvalidArgumentError(
                f"Expected a dimension name as text, got {key!r}.", hint="To list the names, run `winml-py info`."
            )
    return MappingProxyType({key: _require_uint32(size, f"the dimension {key!r}") for key, size in sizes.items()})


def _check_shapes(shapes: Mapping[str, Sequence[int]], name: str) -> Mapping[str, tuple[int, ...]]:
    require_type(shapes, Mapping, 'Pass a dict, for example {"image": (1, 3, 640, 640)}.')
    checked = {}
    for key, shape in shapes.items():
        try:
            sizes = tuple(operator.index(size) for size in shape)
        except TypeError:
            sizes = ()
        if not is_text(key) or not sizes or not all(size == -1 or 0 < size < 1 << 32 for size in sizes):
            raise InvalidArgumentError(
                f"The shape of input {key!r} cannot be {shape!r}.", hint="Pass (1, 3, 640, 640); -1 leaves a size free."
            )
        checked[key] = sizes
    return MappingProxyType(checked)


def _check_engine_name(engine: str | None, name: str) -> str | None:
    if engine is not None and (not isinstance(engine, str) or not engine):
        raise InvalidArgumentError(
            f"The engine cannot be {engine!r}.", hint='Pass "onnxruntime", or a provider such as "openvino".'
        )
    return engine


def _convert_to_texts(options: Mapping[str, object], name: str) -> Mapping[str, str]:
    """The options of the runtime or a provider as text, with 1 and 0 for True and False."""
    if not isinstance(options, Mapping) or not all(
        isinstance(key, str) and isinstance(value, (str, int, float)) for key, value in options.items()
    ):
        hint = "Pass {key: value}, where each value is a str, a bool or a number."
        raise InvalidArgumentError(f"{name} cannot be {options!r}.", hint=hint)
    return MappingProxyType(
        {key: str(int(value) if isinstance(value, bool) else value) for key, value in options.items()}
    )


def _check_log_severity(severity: str, name: str) -> str:
    if severity not in LOG_SEVERITIES:
        hint = f"Pass one of {', '.join(LOG_SEVERITIES)}."
        raise InvalidArgumentError(f"{name} cannot be {severity!r}.", hint=hint)
    return str(severity)


def _convert_to_tuning(value: Tuning | Mapping[str, Any], name: str) -> Tuning:
    """The tuning for a value; a file of options has its fields."""
    tuning = Tuning(**value) if isinstance(value, Mapping) else value
    require_type(tuning, Tuning, "Pass a Tuning, for example Tuning(memory_arena=False).")
    return tuning


def _convert_to_isolation(value: Isolation | str | Mapping[str, Any] | None, name: str) -> Isolation | None:
    """The isolation for a value; a file of options has its fields."""
    isolation = Isolation(**value) if isinstance(value, Mapping) else Isolation() if value == "process" else value
    if isolation is None or isinstance(isolation, Isolation):
        return isolation
    raise InvalidArgumentError(
        f"{name} cannot be {value!r}.", hint='Pass "process", None, or, for example, Isolation(max_memory=2 << 30).'
    )


class LearningModelSessionOptions(Object):
    """How a session is compiled. A session copies what it needs: later changes do not affect it.

    Passing a default options object is not the same as passing none: as in Windows ML,
    `batch_size_override` is 1 then, so dimensions denoted `DATA_BATCH` become 1.
    Without options they stay free.

    Example:
        >>> from winml_py import LearningModelSessionOptions
        >>> options = LearningModelSessionOptions()
        >>> options.override_named_dimension("height", 480)
        >>> options.set_intra_op_num_threads_override(1)
    """

    close_model_on_session_creation = Setting[bool, bool](lambda: False, require_bool)
    """Whether making the session disposes of the model, so that only the session holds memory."""

    allow_cpu_fallback = Setting[bool, bool](lambda: _DEFAULTS.allow_cpu_fallback, require_bool)
    """Whether nodes that a GPU's provider does not take may run on the CPU.

    Default True, and `session.assigned_nodes` lists them; False makes them an error.
    """

    batch_size_override = Setting[int, int](lambda: 1, _require_uint32)
    """What every dimension denoted `DATA_BATCH` becomes; 0 leaves the model as it is. Default 1.

    The *denotation* decides, not the position: a batch dimension that is only named is overridden
    with `override_named_dimension`.
    """

    named_dimension_overrides = Setting(lambda: MappingProxyType({}), _check_dimensions)
    """The overrides that were set, by name."""

    input_shape_overrides = Setting(lambda: MappingProxyType({}), _check_shapes)
    """The shapes that were set with `override_input_shape`, by the names of inputs."""

    intra_op_num_threads = Setting[int, int](
        count_usable_cores, lambda value, name: require_whole_number(value, name, 1, MAX_THREADS)
    )
    """Threads that work together on one operator; by default the cores this process may use.

    Use 1 when many sessions run side by side, or for models so small that threads cost more than they save.
    """

    intra_op_thread_spinning = Setting[bool, bool](lambda: not is_confined(), require_bool)
    """Whether threads spin while they wait: lower latency, at the cost of a busy core between evaluations.

    Default True; False if the process is confined to some of the cores, or to a share of their time.
    Switch it off when the process has other work to do on its cores. OpenVINO's own package has no such setting.
    """

    engine = Setting(lambda: _DEFAULTS.engine, _check_engine_name)
    """What runs the model: None (default), "onnxruntime", "openvino", or the name of an installed provider.

    None is ONNX Runtime, unless `precision` is a type that only another engine computes in. A named engine runs all
    inputs, and nothing compares its results: `winml_py.perf.tune` finds out whether one is right and faster.
    """

    precision = Setting[Precision, Precision](
        lambda: _DEFAULTS.precision, lambda value, name: require_member(Precision, value, name)
    )
    """The number type to compute in: `AUTO` (default), `FLOAT32`, `FLOAT16` or `BFLOAT16`.

    On a CPU, `AUTO` is float32, for float16 models too. `FLOAT16` and `BFLOAT16` need an engine (`winml-py[openvino]`)
    and a processor that compute in them; without `engine`, the first such engine runs the model. On a GPU, `AUTO` runs
    float16 models in float16 if the GPU has it, and `FLOAT16` needs a float16 model. Making the session fails where
    nothing computes in the type. `FLOAT32` is never less than float32: use it where the last digits count.
    """

    provider_options = Setting(lambda: MappingProxyType({}), _convert_to_texts)
    """Options of the provider that runs the model, by the provider's keys: `cudnn_conv_use_max_workspace`, say.

    Making the session fails for a key that the provider does not know. Values become text; True and False become 1
    and 0.
    """

    graph_capture = Setting[bool, bool](lambda: _DEFAULTS.graph_capture, require_bool)
    """Whether a GPU captures the graph of an evaluation and replays it, which saves the time to submit it.

    Default False. CUDA and TensorRT can. With other providers, for models with free sizes or control flow, and if a
    node would run on the CPU, making the session fails. Sessions that capture do not share an engine.
    """

    tuning = Setting(lambda: _DEFAULTS.tuning, _convert_to_tuning)
    """Settings that seldom need changing: see `Tuning`."""

    session_config = Setting(lambda: MappingProxyType({}), _convert_to_texts)
    """Entries of ONNX Runtime's session configuration, by its keys: `session.use_deterministic_compute`, say.

    For settings that no other option covers. They are set last and override the other options. ONNX Runtime ignores
    keys that it does not know. Engines other than ONNX Runtime accept none. True and False become 1 and 0.
    """

    run_config = Setting(lambda: MappingProxyType({}), _convert_to_texts)
    """Entries of ONNX Runtime's run configuration, for every evaluation: `qnn.htp_perf_mode`, say.

    Entries that a session sets itself, for graph capture and for waiting, are refused. Each costs some microseconds
    per evaluation.
    """

    log_severity = Setting(lambda: _DEFAULTS.log_severity, _check_log_severity)
    """The least severity of the messages about the session that ONNX Runtime logs to stderr.

    "verbose", "info", "warning", "error" or "fatal" (default: errors quote ONNX Runtime's messages). Other engines
    have no such log.
    """

    weights = Setting[Weights, Weights](
        lambda: _DEFAULTS.weights, lambda value, name: require_member(Weights, value, name)
    )
    """Where the weights of a large model are: `SHARED` (default) or `PRIVATE`.

    `SHARED`: the first CPU session of a model file with 16 MB of weights or more writes them, optimised, to the cache
    folder; it and all later ones map that file. They start in a fraction of the time and share one copy, even with
    different threads and arenas. The file takes up to twice the size of the weights on disk.
    Replace model files by renaming: changing a mapped file in place has undefined results. The cache folder also holds
    models that OpenVINO compiled (from files of 256 KB or more).

    `PRIVATE`: nothing is mapped or written. Use it if files may be changed in place, if the disk is slower than
    compiling, or for a model that is run once.
    """

    profiling = Setting[bool, bool](lambda: _DEFAULTS.is_profiled, require_bool)
    """Whether the time of each node is recorded, for `session.end_profiling(path)`. Default False.

    Costs some microseconds per node, and memory for each evaluation: for measuring, not for production.
    """

    isolation = Setting(lambda: _DEFAULTS.isolation, _convert_to_isolation)
    """Whether the engine runs in a separate process: None (default), "process", or an `Isolation` with limits.

    For untrusted models: some models crash the process that compiles or evaluates them. In a separate process, that
    raises an `EngineLostError` and sets `session.is_lost`; a new session of the model works. A time limit also ends a
    running kernel: if the run has not stopped half a second later, the process is killed, and the session is unusable.
    Starting the process takes about half a second; an evaluation takes some tens of microseconds more, and copies each
    input and output. Operators in Python cannot be isolated. On a GPU, tensors stay in the host's memory.
    docs/security.md says what is guaranteed.
    """

    tuned_for = Setting(lambda: MappingProxyType({}), _convert_to_texts)
    """What `winml_py.perf.tune` measured these options on: the model's content, the device and the versions.

    Empty by default. Otherwise, making a session of another model fails; on another processor or device, and with other
    versions, an `EngineWarning` says what has changed. Set it to {} to use the options without this check.
    """

    def __init__(self) -> None:
        vars(self).update((name, setting.default()) for name, setting in SETTINGS.items())

    if not TYPE_CHECKING:  # a type checker that sees this method lets every name pass

        def __setattr__(self, name: str, value: object) -> None:
            """Sets an option.

            Raises:
                AttributeError: there is no such option.
            """
            if name not in SETTINGS:
                hint = did_you_mean(name, SETTINGS)
                raise AttributeError(f"Unknown session option {name!r}. {hint}", name=name, obj=self)
            super().__setattr__(name, value)

    def override_named_dimension(self, name: str, dimension: int, /) -> None:
        """Fixes a named free dimension, which lets the engine plan ahead; 0 leaves it free.

        Names are case-sensitive; making the session fails if no input has the name. Setting a name again replaces its
        size.
        """
        self.named_dimension_overrides = {**self.named_dimension_overrides, name: dimension}

    def override_input_shape(self, name: str, shape: Sequence[int], /) -> None:
        """Fixes the free dimensions of an input by position, also those without a name; -1 leaves one as it is.

        Pictures bound to the input are scaled to these sizes. Setting an input again replaces its shape.

        Raises:
            InvalidArgumentError: not a shape. Making the session raises it if the model has no such input, or fixes
                another size.

        Example:
            >>> from winml_py import LearningModelSessionOptions
            >>> options = LearningModelSessionOptions()
            >>> options.override_input_shape("images", (1, 3, 640, 640))
        """
        # Checked here, too: Pyright takes the type of what is assigned here for that of the option.
        self.input_shape_overrides = _check_shapes({**self.input_shape_overrides, name: shape}, "input_shape_overrides")

    def set_intra_op_num_threads_override(self, threads: int, /) -> None:
        """Windows ML's native name for setting `intra_op_num_threads`."""
        self.intra_op_num_threads = threads

    def set_intra_op_thread_spinning(self, allow: bool, /) -> None:
        """Windows ML's native name for setting `intra_op_thread_spinning`."""
        self.intra_op_thread_spinning = allow

    def to_dict(self) -> dict[str, Any]:
        """All settings, ready for JSON."""
        return {name: _to_json(vars(self)[name]) for name in SETTINGS}

    @classmethod
    def from_dict(cls, values: Mapping[str, object], /) -> LearningModelSessionOptions:
        """Options with these settings, as `to_dict` returns them; other settings keep their defaults.

        Raises:
            TypeError: a value of another type, or an unknown field of `Tuning` or `Isolation`.
            InvalidArgumentError: an unknown setting, or an invalid value.
        """
        options = cls()
        for key, value in values.items():
            if key not in SETTINGS:
                raise InvalidArgumentError(f"Unknown session option {key!r}.", hint=did_you_mean(key, SETTINGS))
            setattr(options, key, SETTINGS[key].read_json(value))
        return options

    @classmethod
    def load(cls, path: str | os.PathLike[str] | IO[Any]) -> LearningModelSessionOptions:
        """The options in a file, given by path or open, that `save` or `winml-py tune --output` wrote.

        Raises:
            StorageNotFoundError: there is no such file.
            InvalidArgumentError: the file does not hold session options, or holds an unknown setting.
        """
        name = get_source_name(path)
        try:
            with open_text(path) as file:
                facts = json.load(file)
            if facts.get("kind") != KIND or facts.get("schema_version") != SCHEMA:
                raise ValueError(f"its kind is {facts.get('kind')!r}, its schema {facts.get('schema_version')!r}")
            return cls.from_dict(facts["options"])
        except OSError as error:
            raise make_open_error(path, error) from error
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{name}: {error}", hint="Correct the file, or save it again.") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidArgumentError(
                f"{name}: This is not a file of session options: {error}.",
                hint="Create one with options.save(path) or `winml-py tune`.",
            ) from error

    def save(self, path: str | os.PathLike[str], *, notes: Mapping[str, object] | None = None) -> None:
        """Writes all options to a file, as JSON, whole or not at all.

        Args:
            path: of the file.
            notes: comments for people, ready for JSON. `load` does not read them.

        Raises:
            StorageNotFoundError: there is no such folder.
            StorageAccessError: the file cannot be written.
        """
        require_folder(path)
        facts = {"schema_version": SCHEMA, "kind": KIND, "options": self.to_dict()}
        if notes:
            facts["notes"] = notes
        write_atomically(path, (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        changed = [
            f"{name}={_to_json(vars(self)[name])!r}"
            for name, setting in SETTINGS.items()
            if vars(self)[name] != setting.default()
        ]
        return f"LearningModelSessionOptions({', '.join(changed)})"


SETTINGS: dict[str, Setting[Any, Any]] = {
    name: setting for name, setting in vars(LearningModelSessionOptions).items() if isinstance(setting, Setting)
}
"""Every setting, by its name."""


def _to_json(value: object) -> Any:
    """The value as JSON has it: enums by their names, dataclasses by their fields."""
    if isinstance(value, IntEnum):
        return value.name.lower()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else value


def make_engine_options(options: LearningModelSessionOptions | None) -> EngineOptions:
    """The engine's part of the options; without options they are the defaults, but the batch stays free."""
    given = LearningModelSessionOptions() if options is None else options
    return EngineOptions(
        given.intra_op_num_threads,
        given.intra_op_thread_spinning,
        None if options is None else given.batch_size_override or None,
        # Sorted, so that equal options are equal keys. A size of 0 leaves a dimension free.
        tuple(sorted((name, size) for name, size in given.named_dimension_overrides.items() if size)),
        tuple(sorted(given.input_shape_overrides.items())),
        given.engine,
        given.precision,
        tuple(sorted(given.provider_options.items())),
        given.allow_cpu_fallback,
        given.graph_capture,
        given.tuning,
        tuple(sorted(given.session_config.items())),
        tuple(sorted(given.run_config.items())),
        given.log_severity,
        given.weights,
        given.profiling,
        given.isolation,
    )
