"""The modules that picture programs for pywinrt import, over `winml_py`: only their import lines change.

`from winrt.windows.ai.machinelearning import LearningModel` becomes
`from winml_py.winrt.windows.ai.machinelearning import LearningModel`, and so for every other line. The classes are
those of `winml_py` itself. Only what Windows has besides Windows ML is written here: storage, streams, codecs.
"""
