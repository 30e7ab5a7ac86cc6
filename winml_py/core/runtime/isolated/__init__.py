"""An engine in a separate process: if it crashes, that is an error, and the program goes on."""
