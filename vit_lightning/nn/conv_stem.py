"""Convolutional stem: a look at neighbouring pixels before the picture is cut into patches."""

from torch import Tensor, nn

from vit_lightning.nn.encoder import ACTIVATIONS, Activation


class ConvStem(nn.Module):
    """Two 3x3 convolutions, each with an activation; the first halves height and width.

    Patches are blind to what crosses their borders and to edges within; a few convolutions in
    front train faster and end higher ("Early Convolutions Help Transformers See Better", 2021).

    Args:
        in_channels: channels of the images.
        out_channels: channels of what comes out.
        activation: "relu" or "gelu".
    """

    def __init__(
        self, in_channels: int, out_channels: int, activation: Activation = "relu"
    ) -> None:
        super().__init__()
        # Halving first leaves a quarter of the pixels to the second one, which is the dear one.
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride=2, padding=1),
            ACTIVATIONS[activation](),
            nn.Conv2d(out_channels, out_channels, 3, padding=1),
            ACTIVATIONS[activation](),
        )
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d):
                # There is no norm here: He's scale keeps the size of the signal through ReLUs.
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in_channels, height, width) to (batch, out_channels, half, half)."""
        x = self.layers(x)  # (B, C, H, W) -> (B, out_channels, H / 2, W / 2)
        return x
