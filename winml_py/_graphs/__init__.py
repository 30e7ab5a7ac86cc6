"""Making models: building them from operators, and joining them."""
