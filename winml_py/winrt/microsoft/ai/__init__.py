"""Microsoft.AI."""
