"""Loads a model that is encrypted on disk. Decrypts it in memory, and never writes it anywhere.

    pip install cryptography
    python samples/encrypted_model.py

AES-GCM also detects changes to the encrypted file. An application would get the key from its own key store. This sample
generates one.
"""

import io
import os
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession

HERE = Path(__file__).parent
NONCE_SIZE = 12


def encrypt(model: bytes, key: bytes) -> bytes:
    nonce = os.urandom(NONCE_SIZE)
    return nonce + AESGCM(key).encrypt(nonce, model, None)


def load(encrypted: bytes, key: bytes) -> LearningModel:
    model = AESGCM(key).decrypt(encrypted[:NONCE_SIZE], encrypted[NONCE_SIZE:], None)
    return LearningModel.load(io.BytesIO(model))


def main() -> None:
    key = AESGCM.generate_key(256)
    encrypted = encrypt((HERE.parent / "models" / "digits.onnx").read_bytes(), key)
    with LearningModelSession(load(encrypted, key)) as session:
        picture = ImageFeatureValue.load(HERE / "pictures" / "seven.png")
        scores = session.evaluate_features({"image": picture}).outputs["probabilities"].to_numpy()
    print(f"{len(encrypted)} bytes, encrypted; the picture is a {scores.argmax()}")


if __name__ == "__main__":
    main()
