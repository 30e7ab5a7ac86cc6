"""From a bound value to a result: binding, evaluation, outputs, result."""
