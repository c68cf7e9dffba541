"""What a picture's pixels look like: brightness, contrast and their kin, on whole uint8 batches.

Each function takes pictures of shape (batch, channels, height, width) with 1 or 3 channels and,
where it has a strength, one number per picture. Grey levels agree with torchvision's functions of
the same names, which take one strength for all pictures.

Most of these change a pixel by its own value only. Such an operation is a *tone curve*, a table
with the new value for each of the 256 old ones, and costs one look-up per pixel whatever it does.
"""

import torch
from torch import Tensor


def adjust_brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Multiplies every value by the picture's `factor`: 0 is black, 1 changes nothing."""
    return _apply_curve(images, _levels(images) * factor[:, None, None])


def adjust_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Moves every value away from the picture's mean grey: factor 0 is flat grey, 1 unchanged."""
    mean = _grey(images).mean(dim=(2, 3))[:, :, None]
    return _apply_curve(images, _blend(_levels(images), mean, factor[:, None, None]))


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keeps the highest `bits` bits of every value."""
    step = 2.0 ** (8 - bits.round()[:, None, None])
    return _apply_curve(images, (_levels(images) / step).floor() * step)


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Inverts every value that is at least the picture's `threshold`."""
    levels = _levels(images)
    return _apply_curve(
        images, torch.where(levels >= threshold[:, None, None], 255 - levels, levels)
    )


def autocontrast(images: Tensor) -> Tensor:
    """Stretches each channel so that its darkest value becomes 0 and its brightest 255."""
    low, high = images.flatten(2).float().aminmax(dim=2, keepdim=True)  # (B, C, 1) each
    stretched = 255 * (_levels(images) - low) / (high - low)
    return _apply_curve(images, torch.where(high > low, stretched, _levels(images)))


def equalize(images: Tensor) -> Tensor:
    """Spreads each channel's values so that all of them become about equally frequent."""
    B, C, H, W = images.shape
    values = images.flatten(2).long()  # (B, C, H * W)
    ones = torch.ones((), dtype=torch.long, device=images.device).expand_as(values)
    count = torch.zeros(B, C, 256, dtype=torch.long, device=images.device)
    count = count.scatter_add_(2, values, ones)
    # As Pillow does: the brightest value present is left out when sharing the pixels among the
    # levels, and a channel with too few pixels for one per level stays as it is.
    brightest = values.amax(dim=2, keepdim=True)
    step = (H * W - count.gather(2, brightest)) // 255  # (B, C, 1)
    darker = count.cumsum(2) - count
    curve = (darker + step // 2) // step.clamp(min=1)
    return _apply_curve(images, torch.where(step > 0, curve, _levels(images)))


def adjust_saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Moves every pixel away from its own grey: factor 0 is a grey picture, 1 unchanged."""
    if images.shape[1] == 1:
        return images
    blended = _blend(images.float(), _grey(images), factor[:, None, None, None])
    return blended.clamp_(0, 255).to(torch.uint8)


def adjust_sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Moves every pixel away from a 3 by 3 blur: factor 0 is blurred, 1 unchanged, 2 sharper.

    The pixels of the border, which have no full neighbourhood, keep their values.
    """
    if min(images.shape[2:]) <= 2:
        return images
    values = images.float()
    rows = values[:, :, :-2] + values[:, :, 1:-1] + values[:, :, 2:]  # (B, C, H - 2, W)
    square = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]  # (B, C, H - 2, W - 2)
    inner = values[:, :, 1:-1, 1:-1]
    blurred = ((square + 4 * inner) / 13).round_()  # weight 5 in the middle, 1 around it
    sharpened = _blend(inner, blurred, factor[:, None, None, None])
    result = images.clone()
    result[:, :, 1:-1, 1:-1] = sharpened.clamp_(0, 255).to(torch.uint8)
    return result


def _levels(images: Tensor) -> Tensor:
    """The 256 grey levels, shape (1, 1, 256): the tone curve that changes nothing."""
    return torch.arange(256, dtype=torch.float32, device=images.device)[None, None]


def _apply_curve(images: Tensor, curve: Tensor) -> Tensor:
    """Looks every value up in its tone curve; `curve` broadcasts to (batch, channels, 256)."""
    B, C, H, W = images.shape
    table = curve.clamp(0, 255).to(torch.uint8).expand(B, C, 256)
    return table.gather(2, images.reshape(B, C, H * W).long()).view(B, C, H, W)


def _blend(values: Tensor, base: Tensor, factor: Tensor) -> Tensor:
    """The point `factor` of the way from `base` to `values`; beyond 1 it overshoots."""
    return factor * values + (1 - factor) * base


def _grey(images: Tensor) -> Tensor:
    """The luminance of each pixel in whole grey levels, shape (batch, 1, height, width)."""
    values = images.float()
    if images.shape[1] == 1:
        return values
    red, green, blue = values.unbind(dim=1)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).floor_()[:, None]  # (B, 1, H, W)
