"""What PyInstaller has to know of this package; it finds the folder by the entry point `pyinstaller40`."""


def get_hook_dirs() -> list[str]:
    """The folders with hooks."""
    return list(__path__)
