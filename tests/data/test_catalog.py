import pytest
from torchvision import datasets

from vit_lightning.data.catalog import CATALOG, CIFAR10, FASHION_MNIST, MNIST
from vit_lightning.data.remote import Download


def download_of(spec):
    (source,) = [source for source in spec.sources if isinstance(source, Download)]
    return source


def test_addresses_are_torchvisions():
    cifar = datasets.CIFAR10
    (mirror,) = download_of(CIFAR10).mirrors
    ((name, md5),) = download_of(CIFAR10).files
    assert (mirror + name, md5) == (cifar.url, cifar.tgz_md5)
    for spec, reference in ((MNIST, datasets.MNIST), (FASHION_MNIST, datasets.FashionMNIST)):
        assert list(download_of(spec).mirrors) == reference.mirrors
        assert list(download_of(spec).files) == reference.resources


@pytest.mark.parametrize("spec", CATALOG.values(), ids=list(CATALOG))
def test_specs_are_sound(spec):
    assert len(spec.class_names) == 10
    assert len(set(spec.checksums.values())) == len(spec.files)
    assert {file.split for file in spec.files} == {"train", "test"}
    assert spec.num_bytes > (spec.num_train + spec.num_test) * 64
    assert len({source.label for source in spec.sources}) == len(spec.sources)
