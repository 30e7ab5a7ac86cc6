"""`LearningModelSession`, and its options."""
