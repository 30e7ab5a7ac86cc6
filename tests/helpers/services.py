"""The samples of services, `samples/service_*.py`."""

from __future__ import annotations

SERVICES = {"fastapi": ("fastapi", "uvicorn", "prometheus_client"), "litserve": ("litserve",)}
"""Of each its name, and the packages that it needs."""
