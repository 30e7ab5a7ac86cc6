"""Models made here: built of operators, joined, renamed, edited."""
