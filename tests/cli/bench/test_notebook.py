import pytest
import torch

from vit_lightning.cli.bench.notebook import MEAN, STD, picture_loader
from vit_lightning.cli.bench.sequences import NotebookPredictor, sample_loaders


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker")  # on a single core
def test_pictures_are_transformed_one_by_one_by_workers():
    grey = torch.full((7, 3, 11, 11), 51, dtype=torch.uint8)
    loader = picture_loader(grey, torch.arange(7), 3)
    assert loader.num_workers == 2
    batches = list(loader)
    assert [images.shape for images, _ in batches] == [(3, 3, 11, 11)] * 2  # the rest is dropped
    expected = (0.2 - torch.tensor(MEAN)) / torch.tensor(STD)
    torch.testing.assert_close(batches[0][0].mean(dim=(0, 2, 3)), expected)
    assert len({int(label) for _, labels in batches for label in labels}) == 6


def test_sequences_are_reversed_one_by_one():
    train, val = sample_loaders(300, seed=5)
    assert len(train) == 2
    assert len(val.dataset) == 1000
    sequences, labels = next(iter(train))
    assert sequences.shape == (128, 16)
    assert torch.equal(sequences.flip(1), labels)
    again = sample_loaders(300, seed=5)[0].dataset
    assert torch.equal(again[3][0], train.dataset[3][0])
    assert not torch.equal(val.dataset[3][0], train.dataset[3][0])


def test_the_predictor_knows_where_elements_stand():
    model = NotebookPredictor(max_iters=100)
    same = torch.nn.functional.one_hot(torch.zeros(1, 16, dtype=torch.long), 10).float()
    logits = model(same)
    assert logits.shape == (1, 16, 10)
    assert not torch.allclose(logits[0, 0], logits[0, 1])
