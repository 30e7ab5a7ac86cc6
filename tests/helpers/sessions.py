"""Options, sessions and bindings in one call."""

from __future__ import annotations

from typing import Any

from winml_py import (
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
)


def make_options(**settings: Any) -> LearningModelSessionOptions:
    """Makes options with these settings."""
    options = LearningModelSessionOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    return options


def open_session(
    source: Any, device: LearningModelDevice | None = None, *, operators: Any = (), **settings: Any
) -> LearningModelSession:
    """Loads a model and opens a session of it; without settings, it is given no options."""
    options = make_options(**settings) if settings else None
    return LearningModelSession(LearningModel.load(source, operators=operators), device, options)


def open_free_session(source: Any, device: LearningModelDevice | None = None, **settings: Any) -> LearningModelSession:
    """Opens a session which leaves a batch free that the model leaves free."""
    return open_session(source, device, **{"batch_size_override": 0} | settings)


def open_binding(source: Any) -> LearningModelBinding:
    """Makes a binding of a session of its own."""
    return LearningModelBinding(open_session(source))


def bind_all(source: Any, **values: Any) -> tuple[LearningModelSession, LearningModelBinding]:
    """Opens a session and binds all values, in this order."""
    session = open_session(source)
    binding = LearningModelBinding(session)
    for name, value in values.items():
        binding.bind(name, value)
    return session, binding
