"""OpenVINO from its own package, on CPUs of any vendor. The only place that imports openvino, and only in functions."""
