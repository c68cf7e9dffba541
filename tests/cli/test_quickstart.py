import time

from vit_lightning.cli import quickstart, reverse, vit

SEQUENCES = ["--data.train_size=64", "--data.val_size=16", "--data.test_size=16"]
PICTURES = ["--data.train_size=64", "--model.embed_dim=8", "--model.num_layers=1"]
SHORT = ["--trainer.max_epochs=1", "--trainer.log_every_n_steps=1"]


def test_a_line_of_the_table(tmp_path, monkeypatch, data_folder):
    monkeypatch.chdir(tmp_path)
    start = time.perf_counter()
    for name, command, sizes in (("a", reverse, SEQUENCES), ("b", vit, PICTURES)):
        line = quickstart.measure(name, command.launch(["fit", *sizes, *SHORT]), start)
        task, *figures = line.split()
        assert task == name
        accuracies = [float(figure) for figure in figures[0:6:2]]  # train, val, test, each with %
        assert all(0 <= accuracy <= 100 for accuracy in accuracies)
        assert figures[-1].endswith("attention.png")


def test_the_table(capsys, monkeypatch):
    monkeypatch.setattr(reverse, "launch", lambda arguments: None)
    monkeypatch.setattr(vit, "launch", lambda arguments: None)
    monkeypatch.setattr(quickstart, "measure", lambda task, cli, start: f"a line for {task}")
    assert quickstart.main([]) == 0
    output = capsys.readouterr().out
    assert "a line for reversal\na line for digits\n" in output
    assert "tensorboard --logdir lightning_logs" in output


def test_help_and_what_is_not_understood(capsys):
    assert quickstart.main(["--help"]) == 0
    assert quickstart.main(["cifar10"]) == 2
    assert capsys.readouterr().out.count("usage: ./scripts/quickstart") == 2
