"""Programs for people, as `python tests/tools/house.py`; tests run small samples of most of them."""
