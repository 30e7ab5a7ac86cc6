"""Making models: building them from operators, joining, renaming and editing them."""
