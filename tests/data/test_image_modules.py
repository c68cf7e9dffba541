"""On the embedded digits, and on made-up pictures of which each carries its own number."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from vit_lightning.data import (
    CIFAR10DataModule,
    DigitsDataModule,
    FashionMNISTDataModule,
    ImageDataModule,
    MNISTDataModule,
    catalog,
    image_modules,
)
from vit_lightning.data.augment import Augment, normalize
from vit_lightning.data.image_modules import channel_statistics
from vit_lightning.data.store import ImageSet

pytestmark = pytest.mark.usefixtures("data_folder")

STRONG = Augment(crop_padding=1, policy="randaugment", erasing=0.5, mixup=0.3, label_smoothing=0.1)


def ready(data: ImageDataModule) -> ImageDataModule:
    data.prepare_data()
    data.setup("fit")
    return data


def digits(**kwargs) -> ImageDataModule:
    return ready(DigitsDataModule(**({"batch_size": 61} | kwargs)))


def batches(data: ImageDataModule, stage: str, epoch: int = 0) -> list[tuple[Tensor, Tensor]]:
    """What the model gets."""
    loader = getattr(data, f"{stage}_dataloader")()
    loader.sampler.set_epoch(epoch)
    return [data.on_after_batch_transfer(batch, 0) for batch in loader]


def pictures(data: ImageDataModule, stage: str, epoch: int = 0) -> Tensor:
    return torch.cat([images for images, _ in batches(data, stage, epoch)])


@pytest.fixture
def numbered(monkeypatch):
    """A CIFAR-10 of 997 + 53 pictures, the first two pixels of which tell the number."""
    spec = replace(catalog.CIFAR10, shape=(3, 2, 2), num_train=997, num_test=53)
    monkeypatch.setitem(catalog.CATALOG, "cifar10", spec)

    def make(count: int, first: int) -> np.ndarray:
        images = np.random.default_rng(first).integers(0, 256, (count, 3, 2, 2), dtype=np.uint8)
        images[:, 0, 0, 0], images[:, 0, 0, 1] = np.divmod(np.arange(count) + first, 256)
        return images

    def labels(count: int) -> np.ndarray:
        return np.arange(count) % 10

    def fetch(name, dir, verify=True):
        assert name == "cifar10"
        return ImageSet(
            name, make(997, 0), labels(997), make(53, 1000), labels(53), spec.class_names, "a test"
        )

    monkeypatch.setattr(image_modules, "fetch", fetch)


def numbers(images: Tensor) -> list[int]:
    return (images[:, 0, 0, 0].long() * 256 + images[:, 0, 0, 1]).tolist()


# Splits.


@pytest.mark.parametrize(
    ("module", "asked", "sizes"),
    [
        (CIFAR10DataModule, {}, (45_000, 5_000)),
        (MNISTDataModule, {}, (54_000, 6_000)),
        (FashionMNISTDataModule, {}, (54_000, 6_000)),
        (DigitsDataModule, {}, (1_295, 143)),
        (MNISTDataModule, {"train_size": 40_000}, (40_000, 6_000)),
        (MNISTDataModule, {"train_size": 40_000, "val_size": 20_000}, (40_000, 20_000)),
        (CIFAR10DataModule, {"val_size": 1}, (49_999, 1)),
    ],
)
def test_sizes(module, asked, sizes):
    data = module(**asked)
    assert (data.train_size, data.val_size) == sizes
    assert data.steps_per_epoch == -(-sizes[0] // 128)


def test_the_data_say_what_the_model_must_fit():
    data = CIFAR10DataModule()
    assert (data.in_channels, data.image_size, data.num_classes) == (3, 32, 10)
    assert data.class_names[3] == "cat"
    data = FashionMNISTDataModule()
    assert (data.in_channels, data.image_size, data.num_classes) == (1, 28, 10)


def test_the_splits_share_no_picture_and_keep_their_labels(numbered):
    data = ready(CIFAR10DataModule(train_size=601, val_size=101))
    parts = {stage: numbers(images) for stage, (images, _) in data.splits.items()}
    assert [len(part) for part in parts.values()] == [601, 101, 53]
    assert len({n for part in parts.values() for n in part}) == 601 + 101 + 53
    assert parts["test"] == list(range(1000, 1053))
    for stage in ("train", "val"):
        assert data.splits[stage][1].tolist() == [n % 10 for n in parts[stage]]


def test_the_split_is_a_function_of_the_seed_and_the_test_set_is_not(numbered):
    def split(**kwargs) -> dict[str, list[int]]:
        torch.manual_seed(torch.randint(1000, ()).item())  # the ambient state does not matter
        data = ready(CIFAR10DataModule(**kwargs))
        return {stage: numbers(images) for stage, (images, _) in data.splits.items()}

    assert split(seed=3) == split(seed=3)
    assert split(seed=3)["val"] != split(seed=4)["val"]
    assert split(seed=3)["test"] == split(seed=4)["test"]
    fewer = split(seed=3, train_size=100, val_size=99)
    assert fewer["val"] == split(seed=3)["val"]  # fewer to train on, the same to select on
    assert fewer["train"] == split(seed=3)["train"][:100]


def test_the_batches_hold_every_picture_once():
    data = digits(train_size=307, val_size=67)
    for stage, size in (("train", 307), ("val", 67), ("test", 359)):
        loader = getattr(data, f"{stage}_dataloader")()
        assert sum(len(batch[1]) for batch in loader) == size
        assert len(loader) == -(-size // 61)
    assert len(data.train_dataloader()) == data.steps_per_epoch


def test_another_split_can_be_measured_like_the_test_set():
    data = digits(augment=STRONG)
    for split in ("train", "val"):
        data.test_split = split
        expected = normalize(data.splits[split][0], data.mean, data.std)
        assert torch.equal(pictures(data, "test"), expected)


def test_loading_happens_once(numbered):
    data = ready(CIFAR10DataModule())
    before = data.splits["train"][0]
    data.setup("test")
    assert data.splits["train"][0] is before


# Normalisation.


def test_training_pictures_come_with_mean_0_and_deviation_1(numbered):
    images = pictures(ready(CIFAR10DataModule(val_size=101)), "train")
    assert images.shape == (896, 3, 2, 2)
    torch.testing.assert_close(images.mean(dim=(0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    deviation = images.std(dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(deviation, torch.ones(3), rtol=0, atol=1e-5)


def test_statistics_are_those_of_the_training_part_alone():
    data = digits(train_size=67, val_size=1000)
    train = data.splits["train"][0].double() / 255
    assert data.mean == pytest.approx([train.mean().item()])
    assert data.std == pytest.approx([train.std(correction=0).item()])
    assert digits(train_size=67, val_size=1000, seed=1).mean != data.mean
    everything = torch.cat([images for images, _ in data.splits.values()])
    assert abs(channel_statistics(everything)[0][0] - data.mean[0]) > 1e-3


def test_channels_are_measured_apart():
    images = torch.tensor([[[[0, 255]], [[51, 51]]]], dtype=torch.uint8)  # (1, 2, 1, 2)
    assert channel_statistics(images) == ([0.5, 0.2], [0.5, 0.0])


@pytest.mark.parametrize("stage", ["val", "test"])
def test_what_is_measured_on_is_only_normalised(stage):
    data = digits(augment=STRONG)
    stored, labels = data.splits[stage]
    for epoch in (0, 3):
        assert torch.equal(pictures(data, stage, epoch), normalize(stored, data.mean, data.std))
    assert torch.equal(torch.cat([target for _, target in batches(data, stage)]), labels)


def test_denormalising_gives_the_pictures_back():
    data = digits()
    assert torch.equal(data.denormalize(pictures(data, "val")), data.splits["val"][0])


# Augmentation.


def test_training_batches_are_a_function_of_seed_epoch_and_step():
    def train(seed: int, epoch: int) -> list[tuple[Tensor, Tensor]]:
        torch.manual_seed(torch.randint(1000, ()).item())  # the ambient state does not matter
        return batches(digits(augment=STRONG, seed=seed), "train", epoch)

    torch.testing.assert_close(train(3, 5), train(3, 5), rtol=0, atol=0)
    assert not torch.equal(train(3, 5)[0][0], train(3, 6)[0][0])
    assert not torch.equal(train(3, 5)[0][0], train(4, 5)[0][0])


def test_a_batch_needs_none_of_those_before_it():
    data = digits(augment=STRONG)
    third = list(data.train_dataloader())[3]
    images, targets = data.on_after_batch_transfer(third, 0)
    torch.testing.assert_close((images, targets), batches(data, "train")[3], rtol=0, atol=0)
    fourth = (*third[:2], (0, 4))  # the same pictures at another step
    assert not torch.equal(images, data.on_after_batch_transfer(fourth, 0)[0])


def test_targets_are_soft_where_augmentation_mixes():
    assert batches(digits(), "train")[0][1].shape == (61,)
    _, targets = batches(digits(augment=STRONG), "train")[0]
    assert targets.shape == (61, 10)
    torch.testing.assert_close(targets.sum(dim=-1), torch.ones(61))


def test_without_augmentation_training_pictures_are_only_shuffled():
    data = digits()
    loader = data.train_dataloader()
    expected = normalize(data.splits["train"][0], data.mean, data.std)[loader.sampler.order()]
    assert torch.equal(pictures(data, "train"), expected)


# Pictures of one's own.


def test_prediction_needs_no_data_set(monkeypatch):
    monkeypatch.setattr(image_modules, "fetch", None)
    data = MNISTDataModule(batch_size=3)
    data.pictures = torch.randint(256, (7, 1, 28, 28), dtype=torch.uint8)
    data.prepare_data()
    data.setup("predict")
    data.load_state_dict({"mean": [0.25], "std": [0.5]})
    assert torch.equal(pictures(data, "predict"), normalize(data.pictures, [0.25], [0.5]))
    assert torch.cat([n for _, n in batches(data, "predict")]).tolist() == list(range(7))


def test_prediction_without_pictures_is_named():
    with pytest.raises(ValueError, match="pictures must be set"):
        DigitsDataModule().predict_dataloader()


# What a checkpoint keeps.


def test_settings_are_plain_and_portable(tmp_path):
    data = DigitsDataModule(dir=str(tmp_path), augment=STRONG, seed=3)
    assert data.hparams["augment"] == asdict(STRONG)
    assert set(data.hparams) == {"train_size", "val_size", "batch_size", "augment", "seed"}
    torch.save(dict(data.hparams), tmp_path / "settings")
    kept = torch.load(tmp_path / "settings", weights_only=True)
    again = DigitsDataModule(**(kept | {"augment": Augment(**kept["augment"])}))
    assert again.augment == STRONG
    assert again.hparams == data.hparams


def test_statistics_travel_with_the_checkpoint(tmp_path):
    data = digits(train_size=67)
    torch.save(data.state_dict(), tmp_path / "state")
    other = digits(train_size=131)
    assert other.mean != data.mean
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert (other.mean, other.std) == (data.mean, data.std)


def test_the_folder_is_obeyed(tmp_path):
    ready(DigitsDataModule(dir=str(tmp_path / "mine")))
    assert (tmp_path / "mine/store/digits/manifest.json").is_file()


# Mistakes.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"train_size": 0}, "train_size must be at least 1, got 0"),
        ({"val_size": 0}, "val_size must be at least 1, got 0"),
        ({"val_size": 1438}, "train_size must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"train_size": 1400}, r"at most the 1,438 training pictures of digits, got 1,400 \+ 143"),
    ],
)
def test_bad_sizes(wrong, message):
    with pytest.raises(ValueError, match=message):
        DigitsDataModule(**wrong)
