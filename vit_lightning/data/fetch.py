"""Get an image set by name: open its verified store, or build it from the first working source."""

import errno
import logging
import os
import shutil
from pathlib import Path

from vit_lightning.data.catalog import CATALOG, Spec
from vit_lightning.data.formats import SourceError, decode, official_bytes
from vit_lightning.data.progress import byte_bar
from vit_lightning.data.sources import Offer, Place
from vit_lightning.data.store import (
    DamagedStoreError,
    ImageSet,
    leftovers,
    locked,
    open_store,
    scratch_folder,
    set_aside,
    sweep,
    write_store,
)

log = logging.getLogger(__name__)


class DataUnavailableError(ValueError):
    """A data set that cannot be had; the message lists what was tried and what to do."""


def data_dir(dir: str | os.PathLike[str] | None = None) -> Path:
    """Find the data folder, which need not exist yet.

    Args:
        dir: The folder, if the caller has chosen one.

    Returns:
        `dir`, else the environment variable `VIT_LIGHTNING_DATA`, else a per-user cache.
    """
    chosen = dir or os.environ.get("VIT_LIGHTNING_DATA")
    if chosen:
        return Path(chosen).expanduser().absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # unset or, by the XDG rules, to be ignored
        cache = Path.home() / ".cache"
    return cache / "vit_lightning"


def store_path(name: str, dir: str | os.PathLike[str] | None = None) -> Path:
    """Folder of the verified store of the set called `name`."""
    return data_dir(dir) / "store" / name


def find_spec(name: str) -> Spec:
    """Look a set up by name, or raise a ValueError that lists the names there are."""
    if name not in CATALOG:
        raise ValueError(f"The data set must be one of {', '.join(CATALOG)}, but got {name!r}.")
    return CATALOG[name]


def fetch(
    name: str,
    dir: str | os.PathLike[str] | None = None,
    *,
    progress: bool = True,
    verify: bool = True,
) -> ImageSet:
    """Open an image set, fetching it first if need be.

    Args:
        name: A name of the catalog.
        dir: The data folder; see `data_dir` for the default.
        progress: Whether to draw progress bars.
        verify: Whether to read every byte of an existing store and compare checksums. What is newly
            fetched is always verified.

    Returns:
        The set, its arrays memory-mapped and read-only.

    Raises:
        ValueError: If there is no set of that name.
        DataUnavailableError: If no source has it, or it cannot be written.
    """
    spec = find_spec(name)
    path = store_path(name, dir)
    try:
        try:
            images = open_store(path, spec.checksums, verify=verify, progress=progress)
        except (FileNotFoundError, DamagedStoreError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path):
                sweep(path)
                images = _open_or_build(spec, path, data_dir(dir), progress, verify)
                sweep(path)
                return images
        if leftovers(path):
            with locked(path, wait=False) as held:
                if held:
                    sweep(path)
        return images
    except OSError as error:
        raise DataUnavailableError(_disk_report(spec, path, error)) from error


def _open_or_build(spec: Spec, path: Path, folder: Path, progress: bool, verify: bool) -> ImageSet:
    """Open the store if another process has just finished it, else build it; under the lock."""
    report: list[str] = []
    try:
        return open_store(path, spec.checksums, verify=verify, progress=progress)
    except FileNotFoundError:
        report.append(f"verified store: none yet at {path}")
    except DamagedStoreError as damage:
        aside = set_aside(path)
        log.warning("The store %s is damaged: %s. Repairing it from the sources.", path, damage)
        report.append(f"verified store: damaged, {damage}; set aside as {aside}")
    free = shutil.disk_usage(path.parent).free
    if free < spec.num_bytes:
        raise OSError(errno.ENOSPC, f"only {free / 1e6:,.0f} MB are free")
    for source in spec.sources:
        with scratch_folder(path) as work:
            try:
                for offer in source.offers(spec.files, Place(folder, work, progress)):
                    try:
                        images = _verified(spec, offer, progress)
                    except SourceError as error:
                        report.append(f"{offer.origin}: {error}")
                        log.warning("%s: %s: %s", spec.name, offer.origin, error)
                        continue
                    write_store(path, images, spec.checksums, work)
                    return open_store(path, spec.checksums, verify=True, progress=progress)
            except SourceError as error:
                report.append(f"{source.label}: {error}")
                log.info("%s: %s: %s", spec.name, source.label, error)
    raise DataUnavailableError(_source_report(spec, folder, report))


def _verified(spec: Spec, offer: Offer, progress: bool) -> ImageSet:
    """Rebuild the official files from an offer, compare their checksums, and decode them."""
    bag = offer.unpack()
    data = {}
    with byte_bar(f"verifying {spec.name}", spec.num_bytes, progress, delay=2.0) as bar:
        for file in spec.files:
            data[file.name] = official_bytes(file, spec.files, bag)
            bar.update(len(data[file.name]))
    train_images, train_labels = decode(data, spec.files, spec.shape, "train")
    test_images, test_labels = decode(data, spec.files, spec.shape, "test")
    assert (len(train_images), len(test_images)) == (spec.num_train, spec.num_test)
    return ImageSet(
        name=spec.name,
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        class_names=spec.class_names,
        source=offer.origin,
    )


def _source_report(spec: Spec, folder: Path, report: list[str]) -> str:
    remedies = [source.remedy(spec.files, folder) for source in spec.sources]
    lines = [f"{spec.title} could not be had from any source. Tried, in this order:"]
    lines += [f"  - {line}" for line in report]
    lines += ["Any one of these will do, followed by the same command again:"]
    lines += [f"  - {remedy}" for remedy in remedies]
    return "\n".join(lines)


def _disk_report(spec: Spec, path: Path, error: OSError) -> str:
    return (
        f"{spec.title} cannot be kept in {path.parent}: {error.strerror or error}."
        f" It takes {spec.num_bytes / 1e6:,.0f} MB, and nothing incomplete was left there."
        " Make room, or choose another folder by setting VIT_LIGHTNING_DATA."
    )
