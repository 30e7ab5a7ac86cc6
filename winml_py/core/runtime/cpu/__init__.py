"""Which engine runs a model on the CPU."""
