"""Windows.Security: buffers of bytes, as programs for pywinrt make them."""
