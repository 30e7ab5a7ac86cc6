"""Trains the enlarger of pictures, and writes its weights to models/weights/upscale.npz.

Needs PyTorch besides the package: `pip install torch`. Takes some minutes on one core. The network looks at five pixels
in each direction, and adds what it finds to the picture enlarged by linear interpolation. `build.py` makes the model
from the weights. It has seen the pictures that `upscale_data.py` draws and no photograph.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from upscale_data import KINDS, halved

PICTURES, EPOCHS, BATCH = 2400, 30, 16
WIDTHS, SIDES = (3, 16, 16, 16, 12), (5, 3, 3, 3)
"""Channels between the convolutions, and the sides of their kernels. The last ones are four pixels of three colours."""

KERNELS = (Image.Resampling.BICUBIC, Image.Resampling.LANCZOS, Image.Resampling.BOX)
"""What halves the pictures: it is not known how a picture became small."""

WEIGHTS = Path(__file__).parent / "weights" / "upscale.npz"


class Upscale(nn.Module):
    """Pictures from 0 to 1, twice as wide and as high."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(taken, given, side) for (taken, given), side in zip(pairwise(WIDTHS), SIDES, strict=True)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Small pictures in, large ones out; colours may leave the range."""
        whole = functional.interpolate(x, scale_factor=2.0, mode="bilinear")
        x = functional.pad(x, [sum(side // 2 for side in SIDES)] * 4, mode="replicate")
        for conv in self.convs[:-1]:
            x = functional.relu(conv(x))
        return whole + functional.pixel_shuffle(self.convs[-1](x), 2)


def drawn(count: int, seed: int, kernels: tuple[Image.Resampling, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Small pictures, and the same ones twice as large, of all kinds."""
    random, draws = np.random.default_rng(seed), list(KINDS.values())
    whole = [draws[number % len(draws)](random) for number in range(count)]
    small = [halved(picture, kernels[number % len(kernels)]) for number, picture in enumerate(whole)]
    first, last = (torch.from_numpy(np.stack([np.asarray(one) for one in part])) for part in (small, whole))
    return first.permute(0, 3, 1, 2), last.permute(0, 3, 1, 2)


def decibels(came: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The ratio of signal to noise of each picture."""
    return -10 * torch.log10(((came.clamp(0, 1) - wanted) ** 2).mean((1, 2, 3)))


def main() -> None:
    torch.manual_seed(0)
    small, whole = drawn(PICTURES, 0, KERNELS)
    test, test_whole = (part.float() / 255 for part in drawn(80, 1, KERNELS[:1]))
    model = Upscale()
    nn.init.zeros_(model.convs[-1].weight)  # at first it gives the linear interpolation
    nn.init.zeros_(model.convs[-1].bias)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    steps = EPOCHS * -(-PICTURES // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    for epoch in range(EPOCHS):
        for batch in torch.randperm(PICTURES).split(BATCH):
            turns, channels = int(torch.randint(4, (1,))), torch.randperm(3)
            pair = (part[batch][:, channels].float() / 255 for part in (small, whole))
            source, target = (torch.rot90(part, turns, (2, 3)) for part in pair)
            loss = functional.l1_loss(model(source), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            kinds = decibels(model(test), test_whole).reshape(-1, len(KINDS)).mean(0)
        print(f"epoch {epoch}:", *(f"{name} {kind:.2f}" for name, kind in zip(KINDS, kinds, strict=True)), flush=True)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    np.savez_compressed(WEIGHTS, **weights)


if __name__ == "__main__":
    main()
