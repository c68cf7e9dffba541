import subprocess
import sys

import pytest

from vit_lightning.cli.main import COMMANDS, main


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"  {name}" in output for name in COMMANDS)


def test_unknown_command(capsys):
    assert main(["revers"]) == 2
    assert "there is no command 'revers'; there are: " in capsys.readouterr().err


def test_help_does_not_import_torch():
    code = (
        "import sys; from vit_lightning.cli.main import main; main(['--help']); "
        "sys.exit('torch' in sys.modules or 'lightning' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    try:
        status = main([name, "--help"])
    except SystemExit as stop:
        status = stop.code
    assert status == 0
    assert "usage: " in capsys.readouterr().out
