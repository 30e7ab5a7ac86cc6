"""The public classes: model, options, device, session, binding, result."""
