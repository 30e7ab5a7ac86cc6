"""Where image contracts come from: exporters' metadata, and files beside a model."""
