import copy
import io

import pytest
import torch
from torch import Tensor, nn

from vit_lightning.optim import CosineWarmupScheduler, MuonAdamW, muon_groups


def net() -> nn.Sequential:
    torch.manual_seed(0)
    hidden = nn.Sequential(nn.Linear(7, 13), nn.LayerNorm(13), nn.ReLU(), nn.Linear(13, 5))
    return nn.Sequential(nn.Linear(3, 7), hidden, nn.Linear(5, 2))


def make(model: nn.Sequential, fused: bool = False) -> MuonAdamW:
    return MuonAdamW(*muon_groups(model, [model[1]], 0.1), muon_lr=0.03, lr=0.01, fused=fused)


def loss(model: nn.Module, step: int) -> Tensor:
    draw = torch.Generator().manual_seed(step)
    return model(torch.randn(11, 3, generator=draw)).square().mean()


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def assert_same(ours: nn.Module, theirs: nn.Module) -> None:
    for a, b in zip(weights(ours), weights(theirs), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("fused", [False, True])
def test_against_torch_stepping_both_separately(fused):
    ours, theirs = net(), net()
    optimizer = make(ours, fused)
    hidden = [theirs[1][0].weight, theirs[1][3].weight]
    matrices = [theirs[0].weight, theirs[2].weight]
    others = [p for p in theirs.parameters() if p.ndim == 1]
    muon = torch.optim.Muon(hidden, lr=0.03, weight_decay=0.1)
    adamw = torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": 0.1},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=0.01,
        fused=fused,
    )
    schedules = [CosineWarmupScheduler(o, 2, 9) for o in (optimizer, muon, adamw)]
    before = weights(ours)
    for step in range(6):
        for model, optimizers in ((ours, [optimizer]), (theirs, [muon, adamw])):
            model.zero_grad()
            loss(model, step).backward()
            for each in optimizers:
                each.step()
        for schedule in schedules:
            schedule.step()
    assert_same(ours, theirs)
    assert not any(torch.equal(a, b) for a, b in zip(before, weights(ours), strict=True))


@pytest.mark.parametrize("fused", [False, True])
def test_state_comes_back_exactly_from_a_plain_checkpoint(fused):
    model = net()
    optimizer = make(model, fused)

    def train(model: nn.Module, optimizer: MuonAdamW, steps: range) -> None:
        for step in steps:
            optimizer.zero_grad()
            loss(model, step).backward()
            optimizer.step()

    train(model, optimizer, range(3))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    again = copy.deepcopy(model)
    resumed = make(again, fused)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert [group["lr"] for group in resumed.param_groups] == [0.03, 0.01, 0.01]
    train(model, optimizer, range(3, 7))
    train(again, resumed, range(3, 7))
    assert_same(model, again)
    for group in resumed.param_groups:  # a schedule sets the rates of both halves
        group["lr"] = 0.0
    before = weights(again)
    train(again, resumed, range(7, 8))
    assert all(torch.equal(a, b) for a, b in zip(before, weights(again), strict=True))


def test_a_closure_is_called_once():
    model = net()
    optimizer, calls = make(model), []

    def closure() -> Tensor:
        calls.append(1)
        optimizer.zero_grad()
        value = loss(model, 0)
        value.backward()
        return value

    assert optimizer.step(closure) == loss(net(), 0)
    assert len(calls) == 1


def test_both_halves_share_state_and_groups():
    model = net()
    optimizer = make(model)
    loss(model, 0).backward()
    optimizer.step()
    assert optimizer.muon.state is optimizer.state is optimizer.adamw.state
    assert len(optimizer.state) == len(list(model.parameters()))
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2, 6]
