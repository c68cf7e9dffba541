"""A Lightning Vision Transformer the way a course notebook has it, to compare with.

The well-known one of the UvA deep-learning course: torch's `nn.MultiheadAttention`, float32,
pictures that are transformed one by one with torchvision and gathered by DataLoader workers. It is
written anew after that description; what it has in common with the original is what costs time.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from vit_lightning.cli.bench.sizes import Shape
from vit_lightning.nn import image_to_patches

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
WORKERS = 2


class PictureDataset(Dataset[tuple[Tensor, int]]):
    """Pictures that are opened and transformed one at a time.

    Args:
        pictures: uint8, (number, 3, size, size).
        labels: class numbers, (number,).
    """

    def __init__(self, pictures: Tensor, labels: Tensor) -> None:
        self.pictures = np.ascontiguousarray(pictures.permute(0, 2, 3, 1).numpy())
        self.labels = labels.tolist()
        size = pictures.shape[-1]
        self.transform = transforms.Compose(
            [
                transforms.RandomHorizontalFlip(),
                transforms.RandomResizedCrop((size, size), scale=(0.8, 1.0), ratio=(0.9, 1.1)),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pictures[index])), self.labels[index]


def picture_loader(pictures: Tensor, labels: Tensor, batch_size: int) -> DataLoader[Any]:
    """Shuffle the pictures and let worker processes transform them."""
    return DataLoader(
        PictureDataset(pictures, labels),
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=WORKERS,
    )


class NotebookBlock(nn.Module):
    """Attention and a feed-forward net, each normalised first and added to what came in."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        D, M, p = shape.embed_dim, shape.dim_feedforward, shape.dropout
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attention = nn.MultiheadAttention(D, shape.num_heads)
        self.net = nn.Sequential(
            nn.Linear(D, M), nn.GELU(), nn.Dropout(p), nn.Linear(M, D), nn.Dropout(p)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Let tokens (length, batch, dim) attend to each other."""
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed)[0]
        out: Tensor = x + self.net(self.norm2(x))
        return out


class NotebookViT(LightningModule):
    """The network with its loss, optimizer and schedule.

    Args:
        shape: of model and pictures.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        D = shape.embed_dim
        self.patch_size = shape.patch_size
        self.embed = nn.Linear(3 * shape.patch_size**2, D)
        self.blocks = nn.Sequential(*(NotebookBlock(shape) for _ in range(shape.num_layers)))
        self.head = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, shape.num_classes))
        self.dropout = nn.Dropout(shape.dropout)
        self.class_token = nn.Parameter(torch.randn(1, 1, D))
        self.positions = nn.Parameter(torch.randn(1, shape.num_tokens, D))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (batch, num_classes)."""
        x = self.embed(image_to_patches(images, self.patch_size))  # (B, N, D)
        x = torch.cat([self.class_token.repeat(len(x), 1, 1), x], dim=1) + self.positions
        x = self.blocks(self.dropout(x).transpose(0, 1))  # (B, T, D) -> (T, B, D)
        logits: Tensor = self.head(x[0])
        return logits

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Return the loss, and log it with the accuracy."""
        images, labels = batch
        logits = self(images)
        loss = F.cross_entropy(logits, labels)
        self.log("train_loss", loss)
        self.log("train_acc", (logits.argmax(dim=-1) == labels).float().mean())
        return loss

    def configure_optimizers(self) -> Any:
        """Set up AdamW, ten times slower after epochs 100 and 150."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [100, 150], gamma=0.1)
        return [optimizer], [scheduler]
