import re

import pytest
import yaml

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
