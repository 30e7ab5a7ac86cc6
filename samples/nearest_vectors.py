"""Finds the nearest of many vectors with single operators, on the best GPU, or on the CPU if there is no GPU.

    python samples/nearest_vectors.py

The sample needs no model file, because each operator is a function. The vectors stand for embeddings of texts or
pictures. A GPU keeps them and their products in its memory, and returns only a few numbers for each question.
"""

import numpy as np

from winml_py import InvalidDeviceError, LearningModelDevice, LearningModelSession, operators

COUNT, LENGTH, NEAREST = 20_000, 128, 3
TWINS = ((17, 4_711), (805, 19_999))
"""Vectors that are nearly the same."""


def drawn() -> np.ndarray:
    """Vectors of length 1, whose products are the cosines of the angles between them."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((COUNT, LENGTH), np.float32)
    for one, other in TWINS:
        vectors[other] = vectors[one] + 0.3 * random.standard_normal(LENGTH, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def held(session: LearningModelSession, array: np.ndarray) -> object:
    """The array in the device's memory, or the array itself, because some GPUs can only use host memory."""
    try:
        return session.upload(array)
    except InvalidDeviceError:
        return array


def main() -> None:
    devices = LearningModelDevice.find_all()
    device = next((device for device in devices if device.hardware == "gpu"), devices[0])
    vectors = drawn()
    questions = vectors[[one for one, _ in TWINS]]

    with operators.compile("Gemm", questions, vectors, transB=1, device=device) as product:
        stored = held(product.session, vectors)  # once, for all questions
        cosines = product(questions, stored)  # stays on the device if an input is there
        best, positions = (np.asarray(found) for found in operators.TopK(cosines, [NEAREST], device=device))
        (node,) = product.session.assigned_nodes
    print(f"{len(questions)} x {COUNT} cosines on {device.name}, by {node.provider}")
    for (one, _), cosine, position in zip(TWINS, best, positions, strict=True):
        print(f"{one}:", ", ".join(f"{near} ({value:.3f})" for near, value in zip(position, cosine, strict=True)))

    expected = questions @ vectors.T
    apart = np.abs(best - np.take_along_axis(expected, positions, axis=1)).max()
    is_same = np.array_equal(positions, np.argsort(-expected, axis=1)[:, :NEAREST])
    print(f"numpy finds {'the same' if is_same else 'others'}; the cosines are at most {apart:.0e} apart")


if __name__ == "__main__":
    main()
