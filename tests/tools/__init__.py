"""Programs for people; tests run small samples of most of them.

browser_check.py           samples/browser in Chromium, against `winml-py run`
conformance.py             ONNX's conformance suite, through winml_py and through raw ONNX Runtime
directml.py                the tests of GPUs on DirectML, under Wine
exact_operators.py         the engines that `tune` may choose, on the conformance suite
find_planted_faults.py     faults planted in models: whether `winml_py.compare.first_departure` names the node
frozen.py                  programs from PyInstaller, zipapp and Nuitka: their sizes, start times and answers
house.py                   size and shape of the package in figures, and the ceilings that CI holds
integer_models.py          random models over integers and shapes: what `tune` chooses against ONNX Runtime
learn_limits.py            whether contracts are learned wrongly from made-up functions with limits and special cases
learn_published.py         whether contracts are learned correctly from functions of published packages
operators_conformance.py   each operator of the conformance suite through `winml_py.operators`
portable.py                contracts built into models against `bind`, in Python, in Node and in browsers
random_classifiers.py      whether conversion to float16 keeps winners, and reports those that change
release.py                 makes a release, and checks it as strangers would use it
serve_hostile.py           `winml-py serve` among hostile requests: right, within its bounds, and nothing grows
servers.py                 sessions under gunicorn, uvicorn, uWSGI and Celery, and in processes of multiprocessing
view_check.py              the pages of `winml-py view` in Chromium
windows_ml.py              Windows ML's own Runtime against this library, under Wine
"""
