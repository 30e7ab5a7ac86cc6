"""Packs what is imported by name: the modules of the public names, plugins, and engines with a package."""

from importlib import metadata

from PyInstaller.utils.hooks import collect_all, collect_submodules

from winml_py.core.runtime.providers.plugins import find_installed

hiddenimports = collect_submodules("winml_py.core")
datas: list[tuple[str, str]] = []
binaries: list[tuple[str, str]] = []
for package in find_installed():
    for module, packages in metadata.packages_distributions().items():
        if package in packages:
            files, libraries, modules = collect_all(module)  # also the metadata, by which a program finds it
            datas, binaries, hiddenimports = datas + files, binaries + libraries, hiddenimports + modules
