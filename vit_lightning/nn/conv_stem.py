"""Convolutional stem: a look at neighbouring pixels before the picture is cut into patches."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_lightning.nn.encoder import ACTIVATIONS, Activation


class MatrixConv(nn.Linear):
    """A 3x3 convolution whose weight is kept as the matrix it is, (out, in * 9).

    It is a linear layer on each pixel's neighbourhood; as a matrix, Muon can orthogonalise it.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(9 * in_channels, out_channels, bias=False)

    def reset_parameters(self) -> None:
        """Draw weights at He's scale, as the other convolutions here do."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in, height, width) to (batch, out, height, width)."""
        return F.conv2d(x, self.weight.view(self.out_features, -1, 3, 3), padding=1)


class ConvStem(nn.Module):
    """Stages of two 3x3 convolutions, each with an activation; a stage halves height and width.

    Patches are blind to what crosses their borders and to edges within; a few convolutions in
    front train faster and end higher ("Early Convolutions Help Transformers See Better", 2021).

    Args:
        in_channels: channels of the images.
        channels: channels of each stage; the last are those of what comes out.
        activation: "relu" or "gelu".
        pooled: False halves by a stride of the first convolution; True by taking the maximum of
            2x2 pixels behind it, and normalises each channel over the batch behind each
            convolution: dearer, and better.
        channels_last: whether a pixel's channels lie side by side in memory, which is faster.
    """

    def __init__(
        self,
        in_channels: int,
        channels: Sequence[int],
        activation: Activation = "relu",
        *,
        pooled: bool = False,
        channels_last: bool = True,
    ) -> None:
        super().__init__()
        if not channels or min(channels) < 1:
            raise ValueError(
                f"stem_channels must have a number of at least 1 for each stage, got {channels}"
            )
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        layers: list[nn.Module] = []
        act = ACTIVATIONS[activation]
        for before, after in zip([in_channels, *channels], channels, strict=False):
            # Halving first leaves a quarter of the pixels to the second one, which is the dear one.
            if pooled:
                first = MatrixConv(before, after) if layers else _conv(before, after, bias=False)
                layers += [first, nn.MaxPool2d(2), nn.BatchNorm2d(after), act()]
                layers += [MatrixConv(after, after), nn.BatchNorm2d(after), act()]
            else:
                layers += [_conv(before, after, stride=2), act(), _conv(after, after), act()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in_channels, height, width) to (batch, channels[-1], less, less)."""
        x = x.contiguous(memory_format=self.memory_format)
        x = self.layers(x)  # (B, C, H, W) -> (B, channels[-1], H / 2**stages, W / 2**stages)
        return x


def _conv(before: int, after: int, *, stride: int = 1, bias: bool = True) -> nn.Conv2d:
    conv = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=bias)
    # He's scale keeps the size of the signal through ReLUs where there is no norm.
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return conv
