"""Trains the finder of drawn shapes, and writes its weights to models/weights/shapes.npz.

Needs PyTorch besides the package: `pip install torch`. Takes some minutes on two cores. One network has two heads:
boxes in the layout of YOLO v8, and a class for each pixel. `build.py` makes two models of it. It knows the pictures
that `shapes_data.py` draws and nothing else: it shows how such models are used, and is of no other use.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from shapes_data import CLASSES, SIDE, Scene, scene
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

SCENES, EPOCHS, BATCH = 6000, 18, 16
WIDTHS = (8, 12, 16, 24, 24)
MIXED, FINE = 24, 12
"""Channels of the five levels, of the grids, and of the pixels."""

STRIDES = (8, 16, 32)
LIMITS = (32.0, 64.0)
"""Shapes up to the first size are found on the finest grid, those above the last on the coarsest."""

WEIGHTS = Path(__file__).parent / "weights" / "shapes.npz"


def layer(*arguments: int) -> nn.Sequential:
    """A convolution whose outputs are normalised while it is trained; the weights that are written have it in them."""
    return nn.Sequential(nn.Conv2d(*arguments), nn.BatchNorm2d(arguments[1]))


class Shapes(nn.Module):
    """Three grids of boxes, and logits of classes for each pixel on a grid of stride 4."""

    def __init__(self) -> None:
        super().__init__()
        sides = [3, *WIDTHS]
        self.down = nn.ModuleList(layer(a, b, 3, 2, 1) for a, b in pairwise(sides))
        self.same = nn.ModuleList(layer(width, width, 3, 1, 1) for width in WIDTHS)
        self.side = nn.ModuleList(layer(width, MIXED, 1) for width in WIDTHS[2:])
        self.mixed = nn.ModuleList(layer(MIXED, MIXED, 3, 1, 1) for _ in STRIDES)
        self.heads = nn.ModuleList(nn.Conv2d(MIXED, 4 + len(CLASSES), 1) for _ in STRIDES)
        self.fine = layer(WIDTHS[1] + MIXED, FINE, 3, 1, 1)
        self.pixels = nn.Conv2d(FINE, 1 + len(CLASSES), 1)

    def forward(self, x: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Raw boxes and logits of each grid, and logits of the classes of pixels."""
        levels = []
        for down, same in zip(self.down, self.same, strict=True):
            x = functional.relu(down(x))
            x = x + functional.relu(same(x))
            levels.append(x)
        found: list[torch.Tensor] = []
        above: torch.Tensor | None = None
        for index in (2, 1, 0):
            level = self.side[index](levels[index + 2])
            if above is not None:
                level = level + functional.interpolate(above, scale_factor=2.0, mode="nearest")
            above = functional.relu(self.mixed[index](level))
            found.insert(0, self.heads[index](above))
        assert above is not None
        fine = torch.cat([levels[1], functional.interpolate(above, scale_factor=2.0, mode="nearest")], 1)
        return found, self.pixels(functional.relu(self.fine(fine)))


def decoded(heads: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes (middle and size, pixels) and logits of classes, of all grids."""
    boxes, logits = [], []
    for head, stride in zip(heads, STRIDES, strict=True):
        steps = (torch.arange(SIDE // stride) + 0.5) * stride
        middle = head[:, :2] * stride + torch.stack(torch.meshgrid(steps, steps, indexing="xy"))
        size = torch.exp(head[:, 2:4].clamp(-4, 4)) * stride * 2
        boxes.append(torch.cat([middle, size], 1).flatten(2))
        logits.append(head[:, 4:].flatten(2))
    return torch.cat(boxes, 2), torch.cat(logits, 2)


def targets(boxes: np.ndarray, classes: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """For each place the box it should give (4 x places) and its scores (classes x places)."""
    wanted, scores = [], []
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    sizes = boxes[:, 2:] - boxes[:, :2]
    level = np.digitize(sizes.max(axis=1), LIMITS) if len(boxes) else np.empty(0)
    for number, stride in enumerate(STRIDES):
        side = SIDE // stride
        box, score = np.zeros((4, side, side), np.float32), np.zeros((len(CLASSES), side, side), np.float32)
        steps = (np.arange(side) + 0.5) * stride
        taken = level == number
        for middle, size, index in zip(middles[taken], sizes[taken], classes[taken], strict=True):
            near_x, near_y = np.abs(steps - middle[0]) < stride * 0.75, np.abs(steps - middle[1]) < stride * 0.75
            places = near_y[:, None] & near_x[None, :]
            box[:, places] = np.array([*middle, *size])[:, None]
            score[index, places] = 1
        wanted.append(box.reshape(4, -1))
        scores.append(score.reshape(len(CLASSES), -1))
    return torch.from_numpy(np.concatenate(wanted, 1)), torch.from_numpy(np.concatenate(scores, 1))


def sides(random: np.random.Generator) -> tuple[int, int]:
    """Width and height, the longer one of `SIDE`."""
    shorter = int(random.integers(SIDE // 2, SIDE + 1))
    return (SIDE, shorter) if random.random() < 0.5 else (shorter, SIDE)


def letterboxed(whole: Scene) -> Scene:
    """The scene in the middle of a gray square, as the models get it."""
    left, top = ((SIDE - side) // 2 for side in whole.picture.size)
    square, mask = Image.new("RGB", (SIDE, SIDE), (114, 114, 114)), np.zeros((SIDE, SIDE), np.uint8)
    square.paste(whole.picture, (left, top))
    mask[top : top + whole.picture.height, left : left + whole.picture.width] = whole.mask
    return Scene(square, whole.boxes + np.float32([left, top, left, top]), whole.classes, mask)


def drawn(count: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Pictures, boxes, scores and masks."""
    random = np.random.default_rng(seed)
    scenes = [letterboxed(scene(random, *sides(random))) for _ in range(count)]
    pictures = torch.from_numpy(np.stack([np.asarray(one.picture) for one in scenes])).permute(0, 3, 1, 2)
    made = [targets(one.boxes, one.classes) for one in scenes]
    masks = torch.from_numpy(np.stack([one.mask for one in scenes])).long()
    return pictures, torch.stack([box for box, _ in made]), torch.stack([score for _, score in made]), masks


def weights(model: Shapes) -> dict[str, np.ndarray]:
    """What `build.py` takes: the weights and biases of convolutions alone."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Sequential):
            found[name] = fuse_conv_bn_eval(module[0], module[1])
        elif isinstance(module, nn.Conv2d) and name.rpartition(".")[0] not in found:
            found[name] = module
    parts = {f"{name}.{key}": value for name, conv in found.items() for key, value in conv.named_parameters()}
    return {name: value.detach().numpy() for name, value in parts.items()}


def loss_of(
    model: Shapes, pictures: torch.Tensor, boxes: torch.Tensor, scores: torch.Tensor, masks: torch.Tensor
) -> torch.Tensor:
    """What is to become small: of the scores, the boxes and the pixels."""
    heads, pixels = model(pictures.float() / 255)
    found, logits = decoded(heads)
    taken = scores.amax(1) > 0
    weight = torch.sigmoid(logits).sub(scores).abs().pow(2).detach()  # the focal loss: what is known counts little
    each = functional.binary_cross_entropy_with_logits(logits, scores, reduction="none")
    classes = (each * weight).sum() / taken.sum()
    got, wanted = found.permute(0, 2, 1)[taken], boxes.permute(0, 2, 1)[taken]
    scale = wanted[:, 2:].mean(1, keepdim=True)
    places = ((got[:, :2] - wanted[:, :2]) / scale).abs().sum(1) + (got[:, 2:] / wanted[:, 2:]).log().abs().sum(1)
    whole = functional.interpolate(pixels, scale_factor=4.0, mode="bilinear")
    return classes + 2 * places.mean() + functional.cross_entropy(whole, masks)


def main() -> None:
    torch.manual_seed(0)
    train, test = drawn(SCENES, 0), drawn(300, 1)
    model = Shapes()
    for head in model.heads:
        nn.init.constant_(head.bias[4:], -4.0)  # at first nothing is anywhere
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    steps = EPOCHS * (SCENES // BATCH + 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    for epoch in range(EPOCHS):
        model.train()
        for batch in torch.randperm(SCENES).split(BATCH):
            optimizer.zero_grad()
            loss = loss_of(model, *(part[batch] for part in train))
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            print(f"epoch {epoch}: {loss_of(model, *test):.4f}", flush=True)
    np.savez_compressed(WEIGHTS, **weights(model))


if __name__ == "__main__":
    main()
