"""Compiling for a GPU: recording, and float16 graphs in float32."""
