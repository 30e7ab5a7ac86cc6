"""Where image contracts come from: presets, files next to a model, and exporters' metadata."""
