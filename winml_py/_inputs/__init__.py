"""The inputs of commands and checks: files, examples and models; and their results."""
