"""Load, bind, evaluate: what every program uses."""
