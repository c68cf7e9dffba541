import torch

from vit_lightning.nn import AttentionPool, mean_pool


def test_padding_does_not_count():
    x = torch.randn(2, 7, 5)
    present = torch.arange(7) < torch.tensor([[7], [4]])
    pool = AttentionPool(5)
    for pooled in (mean_pool, pool):
        truncated = pooled(x[1:, :4])
        torch.testing.assert_close(pooled(x, present)[1:], truncated)
        torch.testing.assert_close(pooled(x, present)[:1], pooled(x[:1]))


def test_an_empty_sequence_has_a_finite_mean():
    assert mean_pool(torch.randn(1, 7, 5), torch.zeros(1, 7, dtype=torch.bool)).abs().sum() == 0


def test_attention_pool_is_a_weighted_average():
    x = torch.randn(3, 7, 5)
    pool = AttentionPool(5)
    weight = (x @ pool.score.weight[0] + pool.score.bias).softmax(dim=1)
    torch.testing.assert_close(pool(x), (weight[..., None] * x).sum(1))
