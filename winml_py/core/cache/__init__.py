"""The cache folder: answers to questions, and folders with saved models."""
