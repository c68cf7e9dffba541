import re

import pytest
import yaml

from vit_lightning.cli.main import main
from vit_lightning.cli.recipes import find_recipe, recipe_command, recipe_names

NAMES = recipe_names()


def test_a_path_comes_before_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_recipe("reverse").name == "reverse.yaml"
    (tmp_path / "mine.yaml").write_text("{}")
    assert find_recipe("mine.yaml").resolve() == (tmp_path / "mine.yaml")


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(ValueError, match=r"'revers'.*majority, palindrome, reverse"):
        find_recipe("revers", "reverse")


@pytest.mark.parametrize("name", NAMES)
def test_the_head_of_a_recipe_is_a_claim(name):
    text = find_recipe(name).read_text()
    head = text[: re.search(r"^\w", text, re.MULTILINE).start()]
    assert re.search(r"^#   vit-lightning \w+ fit --config " + name, head, re.MULTILINE)
    assert re.search(r"\d+(\.\d+)? (s|min)\b", head)
    assert re.search(r"\d\d\.\d+ %|R2 0\.\d+", head)
    assert yaml.safe_load(text).keys() <= {"data", "model", "trainer"}
    assert recipe_command(name) in head


CLAIM = re.compile(r"test (?:(\d+\.\d+) %|R2 (\d\.\d+))")


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if CLAIM.search(find_recipe(n).read_text())])
def test_a_recipe_reaches_what_its_head_claims(name, tmp_path, monkeypatch, capsys):
    head = find_recipe(name).read_text()
    claim = CLAIM.search(head)
    monkeypatch.chdir(tmp_path)
    epochs = re.search(r"--trainer\.max_epochs \d+", head)
    more = epochs[0].split() if epochs else []
    assert main([recipe_command(name), "fit", "--config", name, *more]) == 0
    capsys.readouterr()
    assert main([recipe_command(name), "test", "--config", name]) == 0
    reached = re.search(r"test/(?:acc +(\d+\.\d+) %|r2 +(\d\.\d+))", capsys.readouterr().out)
    if claim[1]:
        assert float(reached[1]) >= float(claim[1]) - 1.0  # another machine rounds otherwise
    else:
        assert float(reached[2]) >= float(claim[2]) - 0.005
