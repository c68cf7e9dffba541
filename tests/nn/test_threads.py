"""A batch on threads: the numbers of one thread, every time the same."""

import subprocess
import sys
import threading

import pytest
import torch
from torch import Tensor, nn

from vit_lightning.nn import Dropout, DropPath
from vit_lightning.nn.threads import on_threads

TIGHT = {"rtol": 0.0, "atol": 1e-12}


@pytest.fixture(params=[2, 3])
def threads(request):
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(1)


def net(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 7), *layers, nn.Linear(7, 4)).double()


def batch(size: int = 11) -> Tensor:
    return torch.randn(size, 5, dtype=torch.float64)


@pytest.mark.parametrize("size", [0, 1, 2, 11])
@pytest.mark.parametrize("needs_x", [True, False])
def test_output_and_gradients_are_those_of_one_thread(size, needs_x, threads):
    model, x = net(nn.GELU()), batch(size).requires_grad_(needs_x)
    model[0].bias.requires_grad_(False)
    unused = nn.Parameter(torch.ones(2, dtype=x.dtype))
    inputs = [x, *model.parameters(), unused]
    inputs = [t for t in inputs if t.requires_grad]
    outputs = model(x), on_threads(model, x, [*model.parameters(), unused])
    assert torch.get_num_threads() == threads  # even for a batch with fewer parts
    weights = torch.randn_like(outputs[0])
    plain, ours = (torch.autograd.grad(o, inputs, weights, allow_unused=True) for o in outputs)
    torch.testing.assert_close(outputs[1], outputs[0], **TIGHT)
    assert plain[-1] is ours[-1] is None
    torch.testing.assert_close(ours[:-1], plain[:-1], **TIGHT)


def test_each_part_has_its_own_thread_and_every_thread_works_alone(threads):
    seen, together = {}, threading.Barrier(threads, timeout=20)

    def look(x: Tensor) -> Tensor:
        together.wait()  # nobody passes unless all parts are computed at the same time
        seen[threading.get_ident()] = (len(x), torch.get_num_threads())
        return x * 2

    for _ in range(2):
        on_threads(look, batch().requires_grad_(), [])
    assert len(seen) == threads
    sizes, numbers = zip(*seen.values(), strict=True)
    assert sum(sizes) == 11
    assert set(numbers) == {1}
    assert torch.get_num_threads() == threads


def test_many_threads_share_a_part(two_threads, monkeypatch):
    monkeypatch.setattr("vit_lightning.nn.threads.MAX_PARTS", 2)
    torch.set_num_threads(5)
    seen = []
    on_threads(lambda x: [seen.append(torch.get_num_threads()), x][1], batch().requires_grad_(), [])
    assert seen == [2, 2]
    assert torch.get_num_threads() == 5


@pytest.mark.parametrize("autocast", [True, False])
def test_random_numbers_follow_from_the_seed_alone(autocast, threads):
    model, x = net(Dropout(0.4), DropPath(0.3), nn.Linear(7, 7), Dropout(0.2)).float(), batch()

    def run(seed: int) -> list[Tensor]:
        torch.manual_seed(seed)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            output = on_threads(model, x.float(), model.parameters())
        assert output.dtype == (torch.bfloat16 if autocast else torch.float32)
        return [output, *torch.autograd.grad(output.sum(), list(model.parameters()))]

    first = run(1)
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(run(1), first, strict=True))
    assert not torch.equal(run(2)[0], first[0])


def test_parts_do_not_share_their_random_numbers(two_threads):
    ones = torch.ones(2, 10_000, requires_grad=True)
    first, second = on_threads(Dropout(0.5), ones, []) != 0
    assert (first == second).float().mean() == pytest.approx(0.5, abs=0.03)


def test_an_error_on_a_thread_is_an_error_here(two_threads):
    def fail(x: Tensor) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        on_threads(fail, batch().requires_grad_(), [])


def test_the_gradient_can_be_asked_for_once(two_threads):
    output = on_threads(torch.sin, batch().requires_grad_(), []).sum()
    output.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once only"):
        output.backward()


def test_without_gradients_it_is_a_plain_call(two_threads):
    seen = []
    with torch.no_grad():
        on_threads(lambda x: [seen.append(threading.current_thread()), x][1], batch(), [])
    assert seen == [threading.main_thread()]


def test_compiled_with_dropout(two_threads):
    model, x = net(Dropout(0.5)), batch()
    compiled = torch.compile(
        lambda x: on_threads(model, x, model.parameters()), backend="eager", fullgraph=True
    )
    assert compiled(x).isfinite().all()


FORKED = """
import os, torch
from vit_lightning.nn.threads import on_threads
torch.set_num_threads(2)
x = torch.ones(4, requires_grad=True)
on_threads(torch.sin, x, []).sum().backward()
child = os.fork()
if not child:
    on_threads(torch.sin, x, []).sum().backward()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_threads_of_its_own():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "7\n"
