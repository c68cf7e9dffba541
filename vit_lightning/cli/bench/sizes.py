"""How large each part of the benchmark is: the sizes that are reported, and tiny ones for a try."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A Vision Transformer with a class token, on square colour pictures, and its batch."""

    image_size: int = 32
    patch_size: int = 4
    embed_dim: int = 256
    num_layers: int = 6
    num_heads: int = 8
    dim_feedforward: int = 1024
    num_classes: int = 10
    dropout: float = 0.0
    batch_size: int = 192

    @property
    def num_patches(self) -> int:
        """Patches of a picture."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_tokens(self) -> int:
        """Patches and the class token."""
        return self.num_patches + 1

    def describe(self) -> str:
        """Say what it is in a line."""
        return (
            f"ViT, {self.embed_dim} wide, {self.num_layers} deep, {self.num_heads} heads,"
            f" MLP {self.dim_feedforward}, {self.num_tokens} tokens, batch {self.batch_size}"
        )


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the parts measure.

    Attributes:
        step: the model and batch of `step`, the same for every contender.
        seconds: how long a contender is timed in a round; at least one step.
        epoch: the model and batch of `epoch`: the course notebook's.
        epoch_size: training pictures of an epoch.
        notebook_size: of the notebook's epoch, which is slower.
        lengths: sequence lengths of `attention`; odd neighbours of powers of two among them.
        attention_tokens: a batch of `attention` has as many sequences as make this many tokens.
        sequences: training sequences an epoch of `reverse`.
        memory_images: picture sizes of `memory`.
        memory_batches: batch sizes of `memory`.
        memory_tokens: a batch with more tokens than this is left out.
    """

    step: Shape = Shape()
    seconds: float = 3.0
    epoch: Shape = Shape(dim_feedforward=512, dropout=0.2, batch_size=128)
    epoch_size: int = 19_200
    notebook_size: int = 9_600
    lengths: tuple[int, ...] = (
        *(16, 17, 32, 33, 64, 65, 128, 129, 196, 197, 256, 257),
        *(512, 513, 1024, 1025, 2048, 4096),
    )
    attention_tokens: int = 8192
    sequences: int = 50_000
    memory_images: tuple[int, ...] = (32, 48, 64, 96, 128)
    memory_batches: tuple[int, ...] = (32, 64, 128, 192, 256)
    memory_tokens: int = 70_000


_TINY = Shape(
    image_size=8, embed_dim=8, num_layers=2, num_heads=2, dim_feedforward=16, batch_size=4
)

SIZES = {
    "full": Sizes(),
    "tiny": Sizes(
        step=_TINY,
        seconds=0.001,
        # Its pictures are those of CIFAR-10, whose size is fixed.
        epoch=replace(_TINY, image_size=32, patch_size=16, dropout=0.2),
        epoch_size=16,
        notebook_size=8,
        lengths=(3, 4),
        attention_tokens=16,
        sequences=300,
        memory_images=(8, 12),
        memory_batches=(2, 4),
        memory_tokens=30,
    ),
}
