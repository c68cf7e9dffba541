import pytest

from vit_lightning.cli.bench.parts import Job
from vit_lightning.cli.bench.rounds import Rounds, Worker, WorkerError

A, B = (Job("attention", name, "float32", "tiny", 1) for name in ("readable", "fused"))


class Recorder:
    """Stands in for processes and writes down what happens."""

    def __init__(self, fail: str = "") -> None:
        self.events: list[str] = []
        self.fail = fail

    def start(self, job):
        events, fail = self.events, self.fail
        events.append(f"start {job.contender}")

        class Contender:
            def measure(self, case):
                events.append(f"{job.contender} {case['length']}")
                if fail == events[-1]:
                    raise WorkerError("no memory")
                return {"milliseconds": len(events)}

            def stop(self):
                events.append(f"stop {job.contender}")

        return Contender()


CASES = [{"length": 3}, {"length": 5}]
TURNS = ["readable 3", "fused 3", "readable 5", "fused 5"]


def test_contenders_take_turns():
    recorder = Recorder()
    samples = Rounds(recorder.start, show=False).run([A, B], CASES, 2, fresh=False)
    assert recorder.events == [
        *("start readable", "start fused", *TURNS, *TURNS, "stop fused", "stop readable")
    ]
    assert [sample.job for sample in samples] == [A, B] * 4


def test_a_process_for_each_measurement():
    recorder = Recorder()
    Rounds(recorder.start, show=False).run([A], CASES, 1, fresh=True)
    once = ["start readable", "readable 3", "stop readable"]
    assert recorder.events == [*once, once[0], "readable 5", once[2]]


def test_who_fails_is_left_out_and_the_others_go_on():
    recorder = Recorder(fail="fused 5")
    rounds = Rounds(recorder.start, show=False)
    samples = rounds.run([A, B], CASES, 2, fresh=False)
    assert rounds.failures == {B: "no memory"}
    assert {sample.job for sample in samples} == {A}
    assert recorder.events.count("fused 3") == 1


def test_a_real_process(tmp_path):
    worker = Worker(A, tmp_path)
    try:
        figures = worker.measure({"length": 3})
        assert figures["kernel"] == "readable"
        with pytest.raises(WorkerError, match="KeyError: 'length'"):
            worker.measure({})
        with pytest.raises(WorkerError, match="ended with status 1: KeyError: 'length'"):
            worker.measure({"length": 3})
    finally:
        worker.stop()
    assert worker.process.returncode == 1


def test_a_process_that_cannot_start(tmp_path):
    with pytest.raises(WorkerError, match=r"bench\.nonsense"):
        Worker(Job("nonsense", "a", "b", "tiny", 1), tmp_path)
