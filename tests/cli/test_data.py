import subprocess
import sys
from pathlib import Path

import pytest

from vit_lightning.cli.data import main

SCRIPT = Path(__file__).parents[2] / "scripts" / "fetch_data.py"


def test_fetch_then_list(tmp_path, capsys):
    assert main(["fetch", "digits", "--dir", str(tmp_path)]) == 0
    assert "1,438 + 359 grey pictures of 8x8 in 10 classes, verified" in capsys.readouterr().out
    assert main(["list", "--dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"Data folder: {tmp_path}" in shown
    assert "intact; from scikit-learn's digits, verified 20" in shown
    assert "not here; get it with: vit-lightning data fetch cifar10" in shown


def test_list_names_damage(tmp_path, capsys):
    main(["fetch", "digits", "--dir", str(tmp_path)])
    (tmp_path / "store/digits/test_labels.npy").unlink()
    assert main(["list", "--dir", str(tmp_path)]) == 0
    assert "will not be used: test_labels.npy is missing" in capsys.readouterr().out


def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path, capsys):
    assert main(["fetch", "imagenet", "digits", "--dir", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("error: The data set must be one of cifar10,")
    assert shown.out.startswith("digits: ")  # what could be had was
    with pytest.raises(ValueError, match="imagenet"):
        main(["fetch", "imagenet", "--debug"])


@pytest.mark.parametrize("argv", [["--help"], ["fetch", "--help"], ["list", "--help"]])
def test_help(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 0
    assert "usage: vit-lightning data" in capsys.readouterr().out


def test_the_script_is_the_command(tmp_path):
    command = [sys.executable, str(SCRIPT), "imagenet", "--dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
