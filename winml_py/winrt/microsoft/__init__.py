"""Microsoft's namespaces: Windows ML as the package that programs bring along calls it."""
