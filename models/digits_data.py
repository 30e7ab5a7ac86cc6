"""scikit-learn's bundled handwritten digits, as 28x28 pictures, split once and for all.

The data are the test half of "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998,
UCI Machine Learning Repository), which scikit-learn ships: 1,797 digits of 8x8 pixels in 17 levels.
"""

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SIDE = 28


def upscale(digit: np.ndarray) -> np.ndarray:
    """An 8x8 digit of levels 0..16 as a 28x28 picture of bytes, white on black."""
    picture = Image.fromarray(np.rint(digit * (255 / 16)).astype(np.uint8))
    return np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pictures to train with, pictures to test with (a quarter, 450), and their labels."""
    digits = load_digits()
    pictures = np.stack([upscale(digit) for digit in digits.images])
    train, test, train_labels, test_labels = train_test_split(
        pictures, digits.target, test_size=0.25, random_state=0, stratify=digits.target
    )
    return train, test, train_labels, test_labels
