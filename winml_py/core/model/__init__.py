"""`LearningModel`, and what it knows: its content, and image contracts."""
