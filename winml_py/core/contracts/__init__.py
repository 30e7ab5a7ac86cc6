"""Where image contracts come from: presets, files beside a model, and exporters' metadata."""
