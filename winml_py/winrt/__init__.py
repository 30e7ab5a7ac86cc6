"""The modules that picture programs import from pywinrt, over `winml_py`: only the import lines change.

`from winrt.windows.ai.machinelearning import LearningModel` becomes
`from winml_py.winrt.windows.ai.machinelearning import LearningModel`, and likewise for every other line. The classes
are those of `winml_py` itself. Only what is not part of Windows ML is implemented here: storage, streams, codecs.
"""
