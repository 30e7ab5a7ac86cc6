"""Where image contracts come from: presets, files beside a model, and what exporters write into it."""
