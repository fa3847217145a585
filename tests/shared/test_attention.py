import pytest
import torch
from torch import nn

from problem1.shared.attention import Attention, Positions, Sinusoidal, causal_mask, feed_forward, keys_seen, sinusoids
from problem1.shared.errors import UserError

B, L, H, M = 3, 7, 4, 32


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def same(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


def random_attention(positions=None):
    attention = Attention(M, H, positions)
    for parameter in attention.parameters():  # biases start at zero, where a mistake would not show
        nn.init.normal_(parameter, std=0.3)
    return attention


@pytest.mark.parametrize(("causal", "cross"), [(False, False), (True, False), (False, True)])
def test_equals_pytorchs_attention_with_the_same_weights(causal, cross):
    ours, theirs = random_attention(), nn.MultiheadAttention(M, H, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    x = torch.randn(B, L, M)
    memory = torch.randn(B, L + 2, M) if cross else x
    mask = torch.ones(L, L, dtype=torch.bool).triu(1) if causal else None
    expected, weights = theirs(x, memory, memory, attn_mask=mask, average_attn_weights=False)
    out, seen = ours(x, memory, causal, return_attention=True)
    same(out, expected)
    same(seen.weights, weights)
    same(ours(x, memory, causal)[0], expected)  # the fused path too


def test_a_closed_gate_equals_deleting_that_heads_columns_of_the_output_matrix():
    attention, x = random_attention(), torch.randn(B, L, M)
    for head in range(H):
        gate = torch.ones(H)
        gate[head] = 0
        gated, _ = attention(x, gate=gate)
        cut = random_attention()
        cut.load_state_dict(attention.state_dict())
        with torch.no_grad():
            cut.output.weight[:, head * M // H : (head + 1) * M // H] = 0
        same(gated, cut(x)[0])
        assert not torch.allclose(gated, attention(x)[0], atol=1e-3)


def test_gates_may_differ_from_item_to_item():
    attention, x = random_attention(), torch.randn(B, L, M)
    gates = torch.tensor([[1.0, 1, 1, 1], [0, 1, 1, 1], [1, 0, 0, 1]])
    together, _ = attention(x, gate=gates)
    for item in range(B):
        same(together[item : item + 1], attention(x[item : item + 1], gate=gates[item])[0])


def test_a_patch_takes_the_place_of_a_closed_head_only():
    attention, x, other = random_attention(), torch.randn(B, L, M), torch.randn(B, L, M)
    heads, others = (attention(source, return_attention=True)[1].outputs for source in (x, other))
    gate = torch.tensor([1.0, 0, 1, 1])
    mixed = heads.clone()
    mixed[:, 1] = others[:, 1]
    same(attention(x, gate=gate, patch=others)[0], attention.mix(mixed))
    same(attention(x, gate=torch.zeros(H), patch=others)[0], attention(other)[0])  # all heads swapped: the other run


def test_nothing_is_kept_on_the_module():
    attention = random_attention()
    before = set(vars(attention)) | set(attention._buffers)
    attention(torch.randn(B, L, M), gate=torch.ones(H), return_attention=True)
    assert set(vars(attention)) | set(attention._buffers) == before


class Shift(Positions):
    def embed(self, x):
        return x + torch.arange(x.shape[-2])[:, None]


class Flip(Positions):
    """Turns queries and keys alike; the logits of attention do not change if both are turned."""

    def rotate(self, q, k):
        return q.flip(-1), k.flip(-1)


class FarIsBad(Positions):
    def __init__(self, window=None):
        super().__init__()
        self.window = window

    def bias(self, q, k):
        return -0.5 * self.distances(q, k).abs() + q[..., :1]  # something that depends on the query as well


def test_embed_is_the_hook_for_the_embeddings():
    x = torch.zeros(1, 3, 2)
    assert Shift().embed(x)[0, :, 0].tolist() == [0, 1, 2]
    assert Positions().embed(x) is x


def test_rotate_reaches_queries_and_keys_on_both_paths():
    plain, turned, x = random_attention(), random_attention(Flip()), torch.randn(B, L, M)
    turned.load_state_dict(plain.state_dict())
    same(turned(x)[0], plain(x)[0])
    same(turned(x, return_attention=True)[0], plain(x)[0])
    turned.positions.rotate = lambda q, k: (q, -k)
    assert not torch.allclose(turned(x)[0], plain(x)[0], atol=1e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_is_added_to_the_logits_on_both_paths(causal):
    attention, x = random_attention(FarIsBad()), torch.randn(B, L, M)
    out, seen = attention(x, causal=causal, return_attention=True)
    same(out, attention(x, causal=causal)[0])
    q, k = attention.split(attention.query(x)), attention.split(attention.key(x))
    logits = q @ k.transpose(-2, -1) / (M // H) ** 0.5 + FarIsBad().bias(q, k)
    if causal:
        logits = logits + torch.full((L, L), -torch.inf).triu(1)
    same(seen.weights, logits.softmax(-1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 3])
def test_a_window_equals_full_attention_with_everything_else_masked(window, causal):
    local, x = random_attention(FarIsBad(window)), torch.randn(B, 11, M)
    out, seen = local(x, causal=causal, return_attention=True)

    class Masked(FarIsBad):
        def bias(self, q, k):
            return super().bias(q, k).masked_fill(self.distances(q, k).abs() > window, -torch.inf)

    full = random_attention(Masked())
    full.load_state_dict(local.state_dict())
    same(out, full(x, causal=causal)[0])
    assert seen.weights.shape == (B, H, 11, 2 * window + 1)


def test_a_window_never_builds_the_square():
    length = 20_000  # the square would take 6.4 GB for four heads
    with torch.inference_mode():
        out, _ = random_attention(FarIsBad(1))(torch.randn(1, length, M))
    assert out.shape == (1, length, M)


# --- scalable softmax, and values of positions -----------------------------------------------------------------------


class Scalable(FarIsBad):
    scalable = 9


class Valued(FarIsBad):
    """Adds to each coordinate of a head's output the weighted mean of the distances."""

    adds_values = True

    def values(self, weights):
        distances = self.distances(weights, weights.transpose(-2, -1)).to(weights.dtype)
        return (weights * distances).sum(-1, keepdim=True).expand(*weights.shape[:-1], M // H)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 2, L])
def test_a_query_sees_the_keys_that_are_not_masked(window, causal):
    _, seen = random_attention(FarIsBad(window))(torch.randn(1, L, M), causal=causal, return_attention=True)
    assert keys_seen(L, L, window, causal).tolist() == (seen.weights[0, 0] > 0).sum(-1).tolist()


def test_another_sequence_is_seen_as_a_whole():
    assert keys_seen(3, 5, None, False).tolist() == [5, 5, 5] and keys_seen(5, 3, None, False).tolist() == [3] * 5


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", [Scalable, Valued])
def test_all_paths_agree_on_the_hooks(kind, causal):
    full, x = random_attention(kind()), torch.randn(B, L, M)
    local, near = random_attention(kind(L)), random_attention(kind(1))
    for each in (local, near):
        each.load_state_dict(full.state_dict())
    out, seen = full(x, causal=causal, return_attention=True)
    same(full(x, causal=causal)[0], out)
    same(full(x, causal=causal, gate=torch.ones(H))[0], out)
    same(local(x, causal=causal)[0], out)
    assert not torch.allclose(near(x, causal=causal)[0], out, atol=1e-3)
    same(near(x, causal=causal)[0], near(x, causal=causal, return_attention=True)[0])
    same(full.mix(seen.outputs), out)


@pytest.mark.parametrize("causal", [False, True])
def test_scalable_softmax_multiplies_logits_and_bias_by_a_factor_per_head_times_the_log_of_the_keys(causal):
    attention, x = random_attention(Scalable()), torch.randn(B, L, M)
    q, k = attention.split(attention.query(x)), attention.split(attention.key(x))
    logits = q @ k.transpose(-2, -1) / (M // H) ** 0.5 + FarIsBad().bias(q, k)
    seen = torch.arange(1, L + 1) if causal else torch.full((L,), L)
    logits = logits * attention.log_factor[:, None, None] * seen.log()[:, None]
    if causal:
        logits = logits + torch.full((L, L), -torch.inf).triu(1)
    same(attention(x, causal=causal, return_attention=True)[1].weights, logits.softmax(-1))


def test_scalable_softmax_begins_with_a_factor_of_1_for_the_stated_number_of_keys():
    scale = Attention(M, H, Scalable()).scale(torch.zeros(1, H, 81, 1), torch.zeros(1, H, 81, 1), causal=True)
    assert scale.shape == (H, 81, 1) and scale[2, :, 0].tolist()[::8][:2] == [0, pytest.approx(1)]
    assert scale[1, 80, 0].item() == pytest.approx(2)  # 81 = 9 squared
    assert Attention(M, H, FarIsBad()).scale(torch.zeros(1, H, 3, 1), torch.zeros(1, H, 3, 1), causal=True) is None


def test_one_key_is_attended_to_whatever_the_factor():
    attention, x = random_attention(Scalable()), torch.randn(B, 1, M)
    out, seen = attention(x, causal=True, return_attention=True)
    assert (seen.weights == 1).all() and out.isfinite().all()


def test_values_are_added_to_the_outputs_of_the_heads():
    plain, valued, x = random_attention(FarIsBad()), random_attention(Valued()), torch.randn(B, L, M)
    valued.load_state_dict(plain.state_dict())
    before, after = (each(x, return_attention=True)[1] for each in (plain, valued))
    same(after.weights, before.weights)
    for item, head, i in [(0, 0, 0), (2, 3, 6), (1, 1, 3)]:
        mean = sum(before.weights[item, head, i, j] * (j - i) for j in range(L))
        same(after.outputs[item, head, i], before.outputs[item, head, i] + mean)


def test_without_the_hooks_nothing_is_learned_or_added():
    assert set(dict(Attention(M, H, FarIsBad()).named_parameters())) == {
        f"{name}.{part}" for name in ("query", "key", "value", "output") for part in ("weight", "bias")
    }
    with pytest.raises(NotImplementedError):
        Positions().values(torch.ones(1, 1, 2, 2))


def test_sinusoidal_table_is_the_formula():
    table = sinusoids(torch.arange(50), 16)
    for t, i in [(0, 0), (7, 3), (49, 7)]:
        angle = torch.tensor(t / 10_000 ** (2 * i / 16))
        same(table[t, 2 * i : 2 * i + 2], torch.stack([angle.sin(), angle.cos()]))


def test_sinusoidal_positions_are_added_to_the_embeddings():
    x = torch.randn(2, 5, 16)
    same(Sinusoidal().embed(x) - x, sinusoids(torch.arange(5), 16).expand(2, -1, -1))


@pytest.mark.parametrize(("d_model", "n_heads"), [(30, 4), (32, 0), (0, 4), (32, -1)])
def test_a_width_that_heads_cannot_share_gets_one_sentence(d_model, n_heads):
    with pytest.raises(
        UserError, match=rf"^d_model is {d_model} and n_heads {n_heads}; d_model must be a multiple of n_heads.$"
    ):
        Attention(d_model, n_heads)


def test_the_causal_mask_lets_a_query_see_itself_and_what_is_before():
    assert causal_mask(2, 3).tolist() == [[True, False, False], [True, True, False]]


def test_the_feed_forward_half_begins_with_its_norm_and_keeps_the_shape():
    half, x = feed_forward(M, 2 * M), torch.randn(B, L, M)
    assert half(x).shape == x.shape
    same(half(5 * x + 3), half(x), 1e-3)  # a norm does not see scale and mean
