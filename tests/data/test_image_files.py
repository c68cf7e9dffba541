import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.data.image_files import find_images, fit_images, load_image

WIDTH, HEIGHT = 13, 7


def gradient() -> np.ndarray:
    """Dark on the left, light on the right, 0 to 255."""
    return np.tile(np.linspace(0, 255, WIDTH).astype(np.uint8), (HEIGHT, 1))


def saved(folder: Path, image: Image.Image, name: str = "a.png", **options) -> Path:
    image.save(folder / name, **options)
    return folder / name


def test_files_come_as_named_and_folders_sorted_and_whole(tmp_path):
    for name in ("b/2.png", "b/1.JPG", "b/c/3.webp", "b/notes.txt", "z.png", "odd.name"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b/folder.png").mkdir()
    found = find_images([tmp_path / "z.png", str(tmp_path / "b"), tmp_path / "odd.name"])
    names = [path.relative_to(tmp_path).as_posix() for path in found]
    assert names == ["z.png", "b/1.JPG", "b/2.png", "b/c/3.webp", "odd.name"]


def test_nothing_to_find_is_named(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=f"the folder {tmp_path} holds no images"):
        find_images([tmp_path])
    with pytest.raises(ValueError, match=f"there is no file or folder {tmp_path}/nope"):
        find_images([tmp_path / "nope"])
    with pytest.raises(ValueError, match="no images were named"):
        find_images([])


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
@pytest.mark.parametrize("stored", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "I;16"])
def test_every_kind_of_pixels_keeps_its_brightness(stored, channels, mode, tmp_path):
    if stored.startswith("I"):
        deep = gradient().astype(np.uint16 if stored == "I;16" else np.int32) * 257
        image = Image.fromarray(deep)
        assert image.mode == stored
    else:
        image = Image.fromarray(gradient()).convert("RGB").convert(stored)
    loaded = load_image(
        saved(tmp_path, image, "a.tif" if stored in ("CMYK", "I") else "a.png"), channels
    )
    assert (loaded.mode, loaded.size) == (mode, (WIDTH, HEIGHT))
    pixels = np.asarray(loaded, dtype=float).reshape(HEIGHT, WIDTH, -1).mean(axis=(0, 2))
    off = np.abs(pixels - gradient()[0])
    assert off.mean() < {"1": 90, "P": 9}.get(stored, 4)  # few colours are far apart
    assert pixels[0] < 5
    assert pixels[-1] > 250


def test_what_is_transparent_is_white(tmp_path):
    clear = saved(tmp_path, Image.new("RGBA", (3, 2), (0, 0, 0, 0)), "clear.png")
    half = saved(tmp_path, Image.new("LA", (3, 2), (0, 128)), "half.png")
    palette = Image.fromarray(np.zeros((2, 3), dtype=np.uint8)).convert("P")
    palette = saved(tmp_path, palette, "palette.png", transparency=bytes([0] * 256))
    assert (np.asarray(load_image(clear, 3)) == 255).all()
    assert np.abs(np.asarray(load_image(half, 1), dtype=int) - 127).max() <= 1
    assert (np.asarray(load_image(palette, 1)) == 255).all()


def test_a_picture_is_turned_as_its_camera_says(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    path = saved(tmp_path, Image.fromarray(gradient()), exif=exif)
    turned = load_image(path, 1)
    assert turned.size == (HEIGHT, WIDTH)
    assert np.array_equal(np.asarray(turned), np.rot90(gradient(), k=-1))


def test_what_is_not_an_image_is_refused(tmp_path):
    for name, content in (("empty.png", b""), ("notes.txt", b"hello"), ("page.png", b"<svg/>")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is not an image that can be read"):
            load_image(tmp_path / name, 3)


def test_pixels_without_a_scale_are_refused(tmp_path):
    path = saved(tmp_path, Image.fromarray(gradient().astype(np.float32)), "a.tif")
    with pytest.raises(ValueError, match=r"a\.tif is damaged or cannot be read: .*floating-point"):
        load_image(path, 1)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_however_a_file_is_cut_short_or_altered_there_is_one_kind_of_error(kind, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, kind)
    whole, refused = buffer.getvalue(), 0
    path = tmp_path / "a.bin"
    for at in range(0, len(whole), 1 + len(whole) // 40):
        altered = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        for content in (whole[:at], altered):
            path.write_bytes(content)
            try:
                load_image(path, 3)
            except ValueError as error:
                refused += 1
                assert str(path) in str(error)  # noqa: PT017  (some are still readable)
    assert refused > 10


def test_the_middle_square_is_scaled():
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = (10, 20, 30)
    tall = np.full((40, 5, 3), 99, dtype=np.uint8)
    batch = fit_images([Image.fromarray(wide), Image.fromarray(tall)], 5)
    assert batch.dtype == torch.uint8
    assert batch.shape == (2, 3, 5, 5)
    assert batch.is_contiguous()
    middle = batch[0, :, :, 1:4]  # the outer columns take a little from beyond the square
    assert middle.flatten(1).unique(dim=1).flatten().tolist() == [10, 20, 30]
    assert (batch[1] == 99).all()


def test_grey_pictures_have_one_channel_and_a_fitting_one_stays_as_it_is():
    square = np.random.default_rng(0).integers(0, 256, (5, 5), dtype=np.uint8)
    batch = fit_images([Image.fromarray(square)], 5)
    assert torch.equal(batch, torch.from_numpy(square)[None, None])


@pytest.mark.parametrize("size", [(1, 1), (1, 97), (97, 1), (2, 3)])
def test_even_the_thinnest_picture_fits(size):
    assert fit_images([Image.new("RGB", size)], 8).shape == (1, 3, 8, 8)
