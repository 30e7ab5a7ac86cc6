"""Trains the digit classifier and writes its weights to models/weights/digits.npz.

Needs PyTorch and scikit-learn besides the package: `pip install torch scikit-learn`. Takes a few minutes.
The network is the one of the ONNX model zoo's mnist-8 (two convolutions, two poolings, one linear layer),
which Windows ML's own samples use. `build.py` makes the models from the weights.
"""

from pathlib import Path

import numpy as np
import torch
from digits_data import SIDE, load
from torch import nn
from torch.nn import functional

EPOCHS = 160
WEIGHTS = Path(__file__).parent / "weights" / "digits.npz"


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


def jitter(pictures: torch.Tensor) -> torch.Tensor:
    """Turns, scales and shifts each picture a little, as hands do."""
    count = len(pictures)
    angle = (torch.rand(count) - 0.5) * 0.5
    scale = 1 / (0.75 + 0.35 * torch.rand(count))
    matrix = torch.zeros(count, 2, 3)
    matrix[:, 0, 0] = matrix[:, 1, 1] = torch.cos(angle) * scale
    matrix[:, 0, 1] = -torch.sin(angle) * scale
    matrix[:, 1, 0] = torch.sin(angle) * scale
    matrix[:, :, 2] = (torch.rand(count, 2) - 0.5) * 0.3
    grid = functional.affine_grid(matrix, [count, 1, SIDE, SIDE], align_corners=False)
    return functional.grid_sample(pictures, grid, align_corners=False)


def main() -> None:
    torch.manual_seed(0)
    train, test, train_labels, test_labels = (torch.from_numpy(np.ascontiguousarray(part)) for part in load())
    train, test = (part[:, None].float() / 255 for part in (train, test))
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(EPOCHS):
        model.train()
        for batch in torch.randperm(len(train)).split(64):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(jitter(train[batch])), train_labels[batch], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
        schedule.step()
        if epoch % 20 == 19:
            with torch.no_grad():
                right = (model(test).argmax(1) == test_labels).sum().item()
            print(f"epoch {epoch + 1}: {right} of {len(test)} test pictures right")
    names = ("conv1_weight", "conv1_bias", "conv2_weight", "conv2_bias", "linear_weight", "linear_bias")
    weights = {name: value.detach().numpy() for name, value in zip(names, model.parameters(), strict=True)}
    WEIGHTS.parent.mkdir(exist_ok=True)
    np.savez(WEIGHTS, **weights)


if __name__ == "__main__":
    main()
