"""`LearningModel`, and what it knows: its content, image contracts, operators of the program's own."""
