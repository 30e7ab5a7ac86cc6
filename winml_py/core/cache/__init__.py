"""What is remembered between processes: answers, and folders of files that a model was made into."""
