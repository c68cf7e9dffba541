"""Where the official files can come from without a network: what is already on this machine.

A source makes offers, and each offer is a bag of files that somebody else verifies. It raises
`SourceError` with one clause to say why it has nothing. The sources that need a network are in
`remote`.
"""

import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from vit_lightning.data.formats import Bag, OfficialFile, SourceError, records, wanted_names

ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True)
class Offer:
    """Files that may be the official ones.

    Attributes:
        origin: Where they are from, as it will be recorded.
        unpack: Gives the files by base name.
    """

    origin: str
    unpack: Callable[[], Bag]


@dataclass(frozen=True)
class Place:
    """Where a source may look and work.

    Attributes:
        folder: The data folder, in which a person may have put files.
        work: An empty scratch folder on the same disk, removed afterwards.
        progress: Whether to draw progress bars.
    """

    folder: Path
    work: Path
    progress: bool


class Source(Protocol):
    """One way to get the official files of a set."""

    @property
    def label(self) -> str:
        """What to call it in a report."""

    def offers(self, files: Sequence[OfficialFile], place: Place) -> Iterator[Offer]:
        """Yield what it has, best first; raise `SourceError` if it has nothing."""

    def remedy(self, files: Sequence[OfficialFile], folder: Path) -> str:
        """What a person can do to make this source work, as an imperative clause."""


def open_bag(path: Path, files: Sequence[OfficialFile]) -> Bag:
    """Collect the files that matter from a folder, an archive or a single file."""
    names = wanted_names(files)
    if path.is_dir():
        return {p.name: p.read_bytes for p in path.iterdir() if p.name in names and p.is_file()}
    if not path.name.endswith(ARCHIVE_SUFFIXES):
        return {path.name: path.read_bytes}
    found: dict[str, Callable[[], bytes]] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:  # one pass, since seeking back in gzip starts over
                name = member.name.rpartition("/")[2]
                if name in names and (content := archive.extractfile(member)) is not None:
                    found[name] = partial(bytes, content.read())
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise SourceError(f"the archive is cut short or damaged ({error})") from error
    return found


@dataclass(frozen=True)
class OwnFiles:
    """Files that a person has put into the data folder.

    Attributes:
        folders: Folders below the data folder in which the files may lie, torchvision's first.
        archives: Names of archives that may lie in the data folder.
    """

    folders: tuple[str, ...]
    archives: tuple[str, ...]
    label = "your own files"

    def offers(self, files: Sequence[OfficialFile], place: Place) -> Iterator[Offer]:
        """Yield each known folder with fitting files, then each known archive."""
        names = wanted_names(files)
        paths = [
            path
            for path in (place.folder / name for name in self.folders)
            if path.is_dir() and any(p.name in names for p in path.iterdir())
        ]
        paths += [p for p in (place.folder / name for name in self.archives) if p.is_file()]
        if not paths:
            raise SourceError(f"none found in {place.folder}")
        for path in paths:
            shown = path.relative_to(place.folder).as_posix()
            origin = f"your own {'files' if shown == '.' else shown}"
            yield Offer(origin, partial(open_bag, path, files))

    def remedy(self, files: Sequence[OfficialFile], folder: Path) -> str:
        """Name the archives, the files and the folder."""
        first = files[0].name.removesuffix(".bin")
        unpacked = (
            f"{first} and the other {len(files) - 1} official files, gzipped or not,"
            f" into {folder / self.folders[0]}"
        )
        if not self.archives:
            return f"put {unpacked}"
        return f"put {' or '.join(self.archives)} into {folder}, or {unpacked}"


@dataclass(frozen=True)
class InstalledFiles:
    """Files that a package of the operating system installs.

    Attributes:
        folder: Where the package puts them.
        package: The package's name.
    """

    folder: Path
    package: str

    @property
    def label(self) -> str:
        """Name the package."""
        return f"Debian package {self.package}"

    def offers(self, files: Sequence[OfficialFile], place: Place) -> Iterator[Offer]:
        """Yield the package's folder."""
        if not self.folder.is_dir():
            raise SourceError(f"not installed: there is no folder {self.folder}")
        yield Offer(self.label, partial(open_bag, self.folder, files))

    def remedy(self, files: Sequence[OfficialFile], folder: Path) -> str:
        """Give the command that installs it."""
        return f"install it with `apt-get install {self.package}` (Debian, Ubuntu)"


@dataclass(frozen=True)
class BundledDigits:
    """The 1,797 digits of 8x8 pixels that come with scikit-learn.

    There is no official test set, so the division is ours and fixed: of each class, in the order of
    the file, the third of every five pictures is for the test. Both parts so draw evenly on the
    whole file, and no random generator can change the division.
    """

    label = "scikit-learn's digits"

    def offers(self, files: Sequence[OfficialFile], place: Place) -> Iterator[Offer]:
        """Yield both parts, written as records."""
        yield Offer(self.label, self._unpack)

    def remedy(self, files: Sequence[OfficialFile], folder: Path) -> str:
        """Give the command that installs it."""
        return "install it with `pip install scikit-learn`"

    def _unpack(self) -> Bag:
        try:
            from sklearn.datasets import load_digits  # slow to import, and needed only once
        except ModuleNotFoundError as error:
            raise SourceError("scikit-learn is not installed") from error
        digits = load_digits()
        # 0..16 to 0..255, rounded; in integers so that every machine gets the same.
        pixels = ((digits.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)
        labels = digits.target
        test = np.zeros(len(labels), dtype=bool)
        for label in range(10):
            test[np.flatnonzero(labels == label)[2::5]] = True
        return {
            "digits-train.bin": partial(records, pixels[~test], labels[~test]),
            "digits-test.bin": partial(records, pixels[test], labels[test]),
        }
