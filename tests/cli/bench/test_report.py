import pytest

from vit_lightning.cli.bench import attention, epoch, memory, reverse, step
from vit_lightning.cli.bench.parts import Job, Sample
from vit_lightning.cli.bench.report import format_table, number, percent, spread, summarize
from vit_lightning.cli.bench.sizes import SIZES


def sample(contender, setting, case=None, **figures):
    return Sample(Job("part", contender, setting, "tiny", 1), case or {}, figures)


def test_median_and_spread():
    samples = [sample("a", "b", speed=value) for value in (5.0, 4.0, 7.0)]
    assert summarize(samples, "speed") == {
        "speed": 5.0,
        "spread": pytest.approx(0.3),
        "rounds": [5.0, 4.0, 7.0],
    }


def test_table():
    rows = [
        {"contender": "ours", "setting": "bf16", "speed": 1234.5, "share": 0.7, "spread": 0.02},
        {"contender": "theirs", "setting": "float32", "speed": 9.0, "share": None},
    ]
    columns = {"images/s": number("speed"), "": spread, "of limit": percent("share")}
    assert format_table(rows, columns).splitlines() == [
        "contender  setting  images/s         of limit",
        "ours       bf16        1,234  ± 2 %      70 %",
        "theirs     float32         9      -         -",
    ]


def test_a_step_is_held_against_the_limit_of_its_arithmetic():
    rows = step.rows(
        [
            sample("limit", "float32", images_per_second=100.0, gflops=1.0),
            sample("limit", "bf16", images_per_second=500.0, gflops=5.0),
            sample("ours", "default", images_per_second=400.0, peak_mb=1.0, arithmetic="bf16"),
            sample("timm", "float32", images_per_second=50.0, peak_mb=1.0, arithmetic="float32"),
            sample("timm", "bf16", images_per_second=200.0, peak_mb=1.0, arithmetic="bf16"),
        ]
    )
    assert [row["share_of_limit"] for row in rows] == [1, 1, 0.8, 0.5, 0.4]
    assert step.verdict(rows) == [
        "ours by default (bf16): 400 images/s, 80 % of the limit",
        "it makes 74 % of the limit's products: in the last block only the class token is computed,"
        " as nothing else is read",
        "2.00 x the best peer (timm, bf16)",
        "8.00 x the median peer in its default, float32",
    ]
    (panel,) = step.panels(rows, SIZES["full"])
    assert panel.limits == {"float32": 100, "bf16": 500, "default (bf16)": 500}


def test_auto_is_judged_by_the_kernel_it_picks():
    def at(contender, length, milliseconds, kernel):
        case = {"length": length}
        figures = {"milliseconds": milliseconds, "kernel": kernel, "peak_mb": 1.0}
        return sample(contender, "bf16", case, **figures)

    rows = attention.rows(
        [
            *(at("auto", 64, 9.0, "readable"), at("auto", 65, 11.0, "readable")),
            *(at("readable", 64, 10.0, "readable"), at("readable", 65, 12.0, "readable")),
            *(at("fused", 64, 20.0, "fused"), at("fused", 65, 10.0, "fused")),
        ]
    )
    auto = [row for row in rows if row["contender"] == "auto"]
    assert [row["length"] for row in auto] == [64, 65]
    assert [row["choice_over_best"] for row in auto] == pytest.approx([0, 0.2])
    assert [row["over_best"] for row in auto] == pytest.approx([-0.1, 0.1])
    assert attention.verdict(rows) == [
        "bf16: what auto picks is at most 20 % slower than the best kernel "
        "(at 65 tokens: readable instead of fused)"
    ]
    assert attention.verdict([row for row in rows if row["length"] == 64]) == [
        "bf16: auto picks the best kernel at every length"
    ]


def test_the_epoch_is_held_against_the_bare_step():
    rows = epoch.rows(
        [
            sample(name, setting, images_per_second=rate)
            for (name, setting), rate in zip(
                epoch.SETTINGS.items(), (480.0, 500.0, 96.0), strict=True
            )
        ]
    )
    assert [row["share_of_bare_step"] for row in rows] == pytest.approx([0.96, 1, 0.192])
    assert epoch.verdict(rows) == [
        "the whole epoch takes 4.2 % longer than its bare steps",
        "5.00 x the notebook's Lightning ViT",
    ]


def test_runs_that_never_got_there_are_counted():
    def run(contender, seconds):
        epochs = None if seconds is None else 3
        return sample(contender, "s", seconds=seconds, epochs=epochs, accuracy=1.0)

    rows = reverse.rows([run("ours", 2.0), run("ours", None), run("notebook", 6.0)])
    assert [(row["perfect"], row["runs"]) for row in rows] == [(1, 2), (1, 1)]
    assert reverse.verdict(rows) == ["s is 3.00 x as fast as the notebook"]
    assert not reverse.verdict(reverse.rows([run("ours", 2.0), run("notebook", None)]))


def test_growth_is_an_exponent_of_the_tokens():
    def at(image_size, tokens, rate, peak):
        case = {"image_size": image_size, "batch_size": 8}
        figures = {"tokens": tokens, "images_per_second": rate, "peak_mb": peak}
        return sample("ours", "default", case, **figures)

    rows = memory.rows([at(32, 65, 400.0, 100.0), at(64, 260, 50.0, 400.0)])
    assert rows[0]["cost_growth"] is None
    assert rows[1]["cost_growth"] == pytest.approx(1.5)  # eight times slower at four times as many
    assert rows[1]["memory_growth"] == pytest.approx(1)
    assert memory.verdict(rows) == [
        "batch 8, 65 to 260 tokens: time grows as tokens^1.50, memory as tokens^1.00"
    ]
