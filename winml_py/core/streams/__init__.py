"""`evaluate_many`: where items come from, what is done with them, and which threads do it."""
