"""What tests and the programs of `tests/tools/` share: models, pictures, references, substitutes for devices."""
