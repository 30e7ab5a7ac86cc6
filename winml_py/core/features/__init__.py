"""What can be bound to a feature: tensors, pictures, maps and sequences. Knows nothing of sessions."""
