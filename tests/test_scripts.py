"""The bash scripts on machines where something is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture
def clone(tmp_path) -> Path:
    """A folder that looks like a fresh clone, with a PATH on which there is no Python yet."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(SCRIPTS.parent / name, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "cat", "cksum", "dirname", "grep", "cut", "rm", "sleep", "env"):
        (tools / name).symlink_to(shutil.which(name))
    return tmp_path


def run(clone: Path, script: str = "quickstart", **extra: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(clone / "tools"), "HOME": str(clone), **extra}
    return subprocess.run(
        [clone / "scripts" / script], env=environment, capture_output=True, text=True, timeout=120
    )


def fake(path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{code}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("old", [False, True])
def test_no_python_or_one_too_old(clone, old):
    if old:
        fake(clone / "tools" / "python3", "exit 1")  # says no to the question for its version
    result = run(clone)
    assert result.returncode == 1
    assert result.stderr.startswith("error: Python 3.11 or newer is needed")
    assert result.stderr.count("\n") == 1


def test_python_without_venv(clone):
    fake(clone / "tools" / "python3", '[ "$1" = -c ]')
    result = run(clone)
    assert result.returncode == 1
    assert "python3-venv" in result.stderr
    assert not (clone / ".venv").exists()


def test_broken_environment(clone):
    fake(clone / ".venv" / "bin" / "python", "exit 127")
    result = run(clone, "test")
    assert result.returncode == 1
    assert "remove it (rm -rf .venv)" in result.stderr


def test_no_network(clone):
    # A real environment whose pip cannot reach anything.
    python = os.path.realpath(sys.executable)
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}
    result = run(clone, PYTHON=python, PIP_CONFIG_FILE=os.devnull, **nowhere)
    assert result.returncode == 1
    assert "check the network" in result.stderr
    assert "pip said: ERROR" in result.stderr
    assert not (clone / ".venv" / "installed").exists()


def test_installs_once(clone):
    count = clone / "count"
    fake(
        clone / ".venv" / "bin" / "python",
        f'case "$*" in *"pip install"*) echo x >>{count};; *quickstart*) echo ready;; esac',
    )
    assert run(clone).stdout.endswith("ready\n")
    assert run(clone).stdout == "ready\n"
    assert count.read_text() == "x\n"
    with (clone / "constraints.txt").open("a") as file:
        file.write("# changed\n")
    assert "Installing" in run(clone).stdout
    assert count.read_text() == "x\nx\n"
