from vit_lightning.data.progress import byte_bar


def test_the_bar_shows_size_and_speed(capsys):
    with byte_bar("some file", 5_000_000, True) as bar:
        bar.update(5_000_000)
    shown = capsys.readouterr().err
    assert "some file: 100%" in shown
    assert "5.00M/5.00M" in shown
    assert "B/s]" in shown


def test_hidden_and_quick_bars_show_nothing(capsys):
    for show, delay in ((False, 0.0), (True, 60.0)):
        with byte_bar("some file", 3, show, delay=delay) as bar:
            bar.update(3)
    assert capsys.readouterr().err.strip() == ""
