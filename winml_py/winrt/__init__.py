"""The modules that picture programs for pywinrt import, over `winml_py`: a drop-in, once import lines are changed.

`from winrt.windows.ai.machinelearning import LearningModel` becomes
`from winml_py.winrt.windows.ai.machinelearning import LearningModel`, and so for every other line. The classes are
those of `winml_py` itself; here is only what Windows has beside Windows ML: storage, streams, codecs.
"""
