"""The cache folder: records of small facts, and folders with saved models."""
