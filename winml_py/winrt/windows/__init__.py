"""Windows's namespaces, as far as picture programs need them."""
