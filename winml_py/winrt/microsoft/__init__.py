"""Microsoft's namespaces: Windows ML as named in the package that programs ship."""
