"""What every package uses, without knowledge of models: collections, memory, threads, files."""
