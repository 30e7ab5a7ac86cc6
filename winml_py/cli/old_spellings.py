"""What commands were told in other words before: the error names the words of today."""

from __future__ import annotations

import click

_AS_ARGUMENT = "Inputs are arguments, without an option: winml-py {command} MODEL [INPUT]..."
_OPTIONS = {
    ("contract", "--input"): "An input that is an image is named by --image.",
    ("contract", "--layout"): "The order of a tensor's dimensions is stated by --tensor-layout.",
    ("join", "--input"): "Inputs are arguments, without an option: winml-py join A B [INPUT]...",
    **{(name, "--input"): _AS_ARGUMENT for name in ("convert", "edit", "optimize", "perf", "profile", "run", "tune")},
    ("perf", "-i"): _AS_ARGUMENT,
}
"""By a command and an option that it has no longer: what to write."""


def in_new_words(error: click.ClickException) -> click.ClickException:
    """The error for an old spelling, which says how it is written today; or the error itself."""
    ctx = getattr(error, "ctx", None)
    command = "" if ctx is None else str(ctx.info_name)
    if isinstance(error, click.NoSuchOption):
        words = _OPTIONS.get((command, error.option_name))
        return click.UsageError(f"{error.option_name}: {words.format(command=command)}", ctx) if words else error
    if ctx is not None and isinstance(error, click.MissingParameter) and error.param and error.param.name == "output":
        models = " ".join(ctx.params[name] for name in ("model", "first", "second") if name in ctx.params)
        last = (ctx.params.get("inputs") or ("OUT.onnx",))[-1]
        flags = " --float16" * (command == "convert")  # which it needs, too
        return click.UsageError(f"Say where to write: winml-py {command} {models} --output {last}{flags}", ctx)
    return error
