"""Learning an image contract from the code that a model was trained with."""
