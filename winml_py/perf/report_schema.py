"""The version of what commands print with --json, and of what `winml-py perf --compare` reads."""

SCHEMA = 2
