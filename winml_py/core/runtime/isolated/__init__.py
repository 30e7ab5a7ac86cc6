"""An engine in a process of its own: its end is an error, and not the end of the program."""
