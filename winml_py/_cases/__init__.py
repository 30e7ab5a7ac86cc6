"""Cases: a model, a device and inputs; where inputs come from, and what outputs mean."""
