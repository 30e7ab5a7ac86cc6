"""Pictures as arrays: decoding, cropping, scaling, and the way into tensors and back. Knows nothing of models."""
