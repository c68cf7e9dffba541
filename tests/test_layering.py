"""Who may import whom, as the design has it, read off the source."""

import ast
from pathlib import Path

import pytest

import vit_lightning

PACKAGE = Path(vit_lightning.__file__).parent
MAY_IMPORT = {
    "nn": set(),
    "models": {"nn"},
    "data": set(),
    "optim": set(),
    "viz": set(),
    "callbacks": {"viz", "nn"},
    "tasks": {"nn", "models", "optim"},
    "cli": {"nn", "models", "data", "optim", "viz", "callbacks", "tasks"},
    "recipes": set(),
}
LIGHTNING = {"tasks", "data", "callbacks", "cli"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(PACKAGE)) for p in SOURCES])
def test_layers(path):
    layer = path.relative_to(PACKAGE).parts[0]
    names = imports(path)
    ours = {name.split(".")[1] for name in names if name.startswith("vit_lightning.")}
    if layer != "__init__.py":
        assert ours <= MAY_IMPORT[layer] | {layer}
    roots = {name.split(".")[0] for name in names}
    assert "lightning" not in roots or layer in LIGHTNING
    assert "matplotlib" not in roots or layer == "viz"
    assert "pytorch_lightning" not in roots


def test_no_grab_bags():
    assert not {"utils.py", "common.py", "helpers.py"} & {path.name for path in SOURCES}


def test_every_layer_is_listed():
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders == set(MAY_IMPORT)
