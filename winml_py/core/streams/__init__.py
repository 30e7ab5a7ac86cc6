"""`evaluate_many`: where items come from, what is done with them, and who does it."""
