"""What every room uses and knows nothing of models: collections, memory, threads, files."""
