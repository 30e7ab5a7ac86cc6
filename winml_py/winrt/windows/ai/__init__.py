"""Windows.AI."""
