"""From a float32 model to a float16 one that is checked: `convert`, and what it reports."""
