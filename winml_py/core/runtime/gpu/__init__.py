"""Compiling for a GPU; float16 graphs in float32."""
