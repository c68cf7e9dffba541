import pytest
from matplotlib.figure import Figure

from vit_lightning.viz.figure_file import save_figure


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("plain", b"\x89PNG"), ("new/b.PDF", b"%PDF")]
)
def test_the_suffix_names_the_format_and_the_path_is_kept(tmp_path, name, start) -> None:
    save_figure(Figure(), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_what_cannot_be_written_is_a_sentence(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.png, \.svg or \.pdf"):
        save_figure(Figure(), tmp_path / "a.doc")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=r"cannot write .*folder: Is a directory"):
        save_figure(Figure(), tmp_path / "folder")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="cannot write "):
        save_figure(Figure(), tmp_path / "file" / "a.png")
