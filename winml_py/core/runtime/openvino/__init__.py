"""OpenVINO by its own package, on CPUs of any maker. The only room that imports openvino, and only in functions."""
