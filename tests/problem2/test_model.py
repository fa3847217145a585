import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import nn

from problem1.shared.errors import UserError
from problem1.shared.storage import model_hash, save_tensors
from problem1.shared.training import Recipe, fit
from problem2.dataset import group_by_length, make_items
from problem2.encodings import ENCODINGS
from problem2.model import POOLINGS, SHAPES, Classifier, load_classifier, save_classifier, smooth_values

LENGTHS = (16, 64)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def same(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


def small(encoding="sinusoidal", **arguments):
    model = Classifier(encoding, **SHAPES["small"], **arguments)
    for parameter in model.parameters():
        if parameter.ndim == 1:  # biases start at zero, where a mistake would not show
            nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.1)
    return model.eval()


def tokens_of(length, batch=5):
    return torch.randint(0, 100, (batch, length))


# --- shape -----------------------------------------------------------------------------------------------------------


def test_shapes_of_the_assignment_and_the_small_one():
    assignment, little = Classifier(), Classifier(**SHAPES["small"])
    assert assignment.shape | SHAPES["assignment"] == assignment.shape
    assert len(assignment.blocks) == 4 and len(little.blocks) == 2
    for model, d_model, d_ff in ((assignment, 128, 512), (little, 64, 128)):
        block = 4 * (d_model + 1) * d_model + (d_model + 1) * d_ff + (d_ff + 1) * d_model + 4 * d_model
        head = (d_model + 1) * (d_model // 2) + d_model // 2 + 1
        expected = 100 * d_model + len(model.blocks) * block + 2 * d_model + head
        assert sum(p.numel() for p in model.parameters()) == expected
        assert model.blocks[0].attention.n_heads == 4
    assert sum(p.numel() for p in little.parameters()) == 75_585


def test_equals_pytorchs_encoder_with_the_same_weights():
    ours = small("none")
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
    theirs = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(64), enable_nested_tensor=False).eval()
    with torch.no_grad():
        for to, block in zip(theirs.layers, ours.blocks, strict=True):
            parts = (block.attention.query, block.attention.key, block.attention.value)
            to.self_attn.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
            to.self_attn.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
            to.self_attn.out_proj.load_state_dict(block.attention.output.state_dict())
            to.norm1.load_state_dict(block.norm.state_dict())
            to.norm2.load_state_dict(block.feed_forward[0].state_dict())
            to.linear1.load_state_dict(block.feed_forward[1].state_dict())
            to.linear2.load_state_dict(block.feed_forward[3].state_dict())
        theirs.norm.load_state_dict(ours.norm.state_dict())
        tokens = tokens_of(12)
        encoded = theirs(ours.embedding(tokens))
    same(ours(tokens).logits, ours.head(encoded.mean(1))[:, 0])


# --- every encoding --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_runs_in_and_beyond_range_and_returning_attention_changes_nothing(encoding, window):
    model = small(encoding, window=window)
    with torch.inference_mode():
        for length in LENGTHS:
            tokens = tokens_of(length)
            plain, asked = model(tokens), model(tokens, return_attention=True)
            assert plain.logits.shape == (5,) and plain.logits.isfinite().all() and plain.logits.std() > 0
            assert plain.attention is None and plain.token_logits is None
            same(plain.logits, asked.logits)
            assert len(asked.attention) == 2
            for weights in asked.attention:
                assert weights.shape == (5, 4, length, length if window is None else 2 * window + 1)
                same(weights.sum(-1), torch.ones(5, 4, length))
            same(model(tokens[2:3]).logits, plain.logits[2:3])  # no item depends on the others


@pytest.mark.parametrize("pooling", POOLINGS)
def test_without_positions_the_order_of_the_input_makes_no_difference(pooling):
    tokens = tokens_of(16)
    shuffled = tokens[:, torch.randperm(16)]
    with torch.inference_mode():
        model = small("none", pooling=pooling)
        same(model(tokens).logits, model(shuffled).logits)
        for encoding in set(ENCODINGS) - {"none"}:
            model = small(encoding, pooling=pooling)
            assert (model(tokens).logits - model(shuffled).logits).abs().max() > 1e-3, encoding


@pytest.mark.parametrize("options", [{}, {"ssmax": 1}])
@pytest.mark.parametrize("encoding", [name for name, cls in ENCODINGS.items() if cls.causal])
def test_a_causal_model_cannot_see_ahead(encoding, options):
    model, tokens = small(encoding, pooling="min", options=options), tokens_of(16)
    changed = tokens.clone()
    changed[:, 9] = (tokens[:, 9] + 50) % 100
    with torch.inference_mode():
        before, after = model(tokens).token_logits, model(changed).token_logits
    same(before[:, :9], after[:, :9])
    assert (before[:, 9:] != after[:, 9:]).any(0).all()


def test_layers_share_one_encoding_unless_each_has_its_own():
    shared, own = small("t5"), small("shaw")
    assert all(block.attention.positions is shared.positions for block in shared.blocks)
    assert own.blocks[0].attention.positions is own.positions is not own.blocks[1].attention.positions


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_layer_has_a_factor_of_its_own_for_scalable_softmax(encoding, tmp_path):
    plain, scalable = small(encoding), small(encoding, options={"ssmax": 1})
    factors = {f"blocks.{layer}.attention.log_factor" for layer in range(2)}
    assert set(dict(scalable.named_parameters())) - set(dict(plain.named_parameters())) == factors
    assert all(parameter.shape == (4,) for name, parameter in scalable.named_parameters() if name in factors)
    tokens = tokens_of(24)
    save_classifier(scalable, tmp_path / "classifier.safetensors")
    loaded = load_classifier(tmp_path / "classifier.safetensors")
    assert loaded.shape["options"] == {"ssmax": 1}
    with torch.inference_mode():
        assert torch.equal(loaded(tokens).logits, scalable(tokens).logits)
        same(scalable(tokens, return_attention=True).logits, scalable(tokens).logits)


# --- pooling ---------------------------------------------------------------------------------------------------------


def encoded(model, tokens):
    """What reaches the pooling, by way of the parts."""
    x = model.embed(tokens)
    for block in model.blocks:
        x, _ = block(x, model.positions.causal)
    return model.norm(x)


@torch.inference_mode()
def test_poolings_are_what_they_say():
    tokens = tokens_of(12)
    for pooling, pool in {
        "mean": lambda x: x.sum(1) / 12,
        "max": lambda x: x.max(1).values,
        "cls": lambda x: x[:, 0],
    }.items():
        model = small(pooling=pooling)
        same(model(tokens).logits, model.head(pool(encoded(model, tokens)))[:, 0])


@torch.inference_mode()
def test_the_logit_under_min_pooling_is_the_lowest_of_its_tokens():
    model, tokens = small(pooling="min"), tokens_of(12)
    prediction = model(tokens)
    assert prediction.token_logits.shape == (5, 12)
    same(prediction.token_logits, model.head(encoded(model, tokens))[..., 0])
    assert prediction.logits.tolist() == [min(row) for row in prediction.token_logits.tolist()]


@torch.inference_mode()
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_cls_sees_the_whole_sequence_and_takes_a_position(encoding):
    model, tokens = small(encoding, pooling="cls"), tokens_of(16, batch=1)
    assert model.positions.trained == 17
    assert model.embed(tokens).shape == (1, 17, 64)
    assert model(tokens, return_attention=True).attention[0].shape == (1, 4, 17, 17)
    logit = model(tokens).logits
    for position in range(16):
        changed = tokens.clone()
        changed[0, position] = (tokens[0, position] + 50) % 100
        assert model(changed).logits != logit
    before = model.embed(tokens)
    model.cls.add_(1)
    moved = (model.embed(tokens) != before).any(-1)[0].nonzero()[:, 0].tolist()
    assert moved == [16 if model.positions.causal else 0]  # behind a causal mask only the last position sees all


# --- local window ----------------------------------------------------------------------------------------------------


@torch.inference_mode()
def test_with_one_layer_and_window_1_a_token_sees_its_neighbours_only():
    shape = SHAPES["small"] | {"n_layers": 1}
    model = Classifier("shaw", **shape, pooling="min", window=1, options={"clip": 1}).eval()
    tokens = tokens_of(20, batch=1)
    before = model(tokens).token_logits[0]
    for position in range(20):
        changed = tokens.clone()
        changed[0, position] = (tokens[0, position] + 50) % 100
        differs = (model(changed).token_logits[0] - before).abs() > 1e-6
        assert differs.nonzero()[:, 0].tolist() == [i for i in (position - 1, position, position + 1) if 0 <= i < 20]
    for position in range(1, 19):  # the logit in a triple does not depend on where the triple stands
        triple = model(tokens[:, position - 1 : position + 2]).token_logits[0]
        same(triple[1], before[position])
    same(model(tokens[:, :2]).token_logits[0, 0], before[0])
    same(model(tokens[:, -2:]).token_logits[0, 1], before[-1])


def test_a_window_never_builds_the_square():
    with torch.inference_mode():  # the square would take 6.4 GB for four heads
        assert small("shaw", window=1, pooling="min")(tokens_of(20_000, 1)).token_logits.shape == (1, 20_000)


# --- values ----------------------------------------------------------------------------------------------------------


def test_smooth_values_start_with_similar_neighbours_and_variance_1():
    rows = smooth_values(100, 64)
    likeness = F.cosine_similarity(rows[:, None], rows[None], dim=-1)
    assert likeness.diagonal(1).min() > 0.9
    assert likeness.diagonal(1).mean() > likeness.diagonal(5).mean() > likeness.diagonal(40).mean()
    assert likeness.diagonal(60).max() < 0.5
    assert 0.8 < rows.std() < 1.2
    model = Classifier(**SHAPES["small"], smooth=True)
    weight = model.embedding.weight
    assert weight.requires_grad and F.cosine_similarity(weight[1:], weight[:-1]).min() > 0.9
    rough = Classifier(**SHAPES["small"]).embedding.weight
    assert F.cosine_similarity(rough[1:], rough[:-1]).abs().mean() < 0.2 and 0.9 < rough.std() < 1.1


# --- storage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_saved_and_loaded_it_says_the_same_and_nothing_is_stored_twice(encoding, tmp_path):
    model, path = small(encoding, pooling="min", window=2), tmp_path / "classifier.safetensors"
    save_classifier(model, path, seed=3)
    loaded, tokens = load_classifier(path), tokens_of(24)
    assert loaded.shape == model.shape and not loaded.training
    with torch.inference_mode():
        assert torch.equal(loaded(tokens).token_logits, model(tokens).token_logits)
    with safe_open(path, framework="pt") as file:
        stored = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118
    assert stored == sum(p.numel() for p in model.parameters())


def test_every_option_is_kept_in_the_file(tmp_path):
    model = Classifier("learned", 1, 2, 32, 16, "cls", None, True, 12, 50, {"beyond": "untrained", "table_rows": 40})
    save_classifier(model, tmp_path / "classifier.safetensors")
    loaded = load_classifier(tmp_path / "classifier.safetensors")
    assert loaded.shape == model.shape
    assert loaded.positions.beyond == "untrained" and loaded.positions.table.shape == (40, 32)


def test_a_file_without_a_classifier_gets_one_sentence(tmp_path):
    save_tensors(tmp_path / "other.safetensors", {"x": torch.ones(2)}, {"shape": {"digits": 3}})
    with pytest.raises(UserError, match="holds no classifier: its header names no encoding"):
        load_classifier(tmp_path / "other.safetensors")


def test_one_model_has_one_shape_and_one_hash():
    """clip=2 is what Shaw has anyway."""
    models = []
    for options in (None, {}, {"clip": 2}):
        torch.manual_seed(0)
        models.append(Classifier("shaw", **SHAPES["small"], options=options))
    assert len({model_hash(model) for model in models}) == 1 and models[2].shape["options"] == {}


@pytest.mark.parametrize("encoding", ["learned", "t5", "shaw"])
def test_the_shared_loop_trains_and_stores_it(encoding, tmp_path):
    """A shared encoding goes through the weight average, a checkpoint and the file of the best weights."""
    model = Classifier(encoding, **SHAPES["small"], smooth=True)
    before = [parameter.clone() for parameter in model.positions.parameters()]
    group = group_by_length(make_items(64, 8))[8]

    def loss(model, batch):
        return F.binary_cross_entropy_with_logits(model(batch.tokens).logits, batch.is_sorted.float())

    recipe = Recipe(steps=30, evaluate_every=15, ema_decay=0.5, weight_decay=0.01, learning_rate=3e-3)
    log = fit(
        model, recipe, lambda step: group, loss, lambda m: {"loss": loss(m, group).item()}, tmp_path, progress=False
    )
    assert log["rows"][-1]["validation loss"] < 0.3
    assert all((old != new).any() for old, new in zip(before, model.positions.parameters(), strict=True))
    loaded = load_classifier(tmp_path / "model.safetensors")
    assert torch.equal(loaded(group.tokens).logits, model(group.tokens).logits)


# --- sentences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"encoding": "cosine"}, "encoding is 'cosine'; the known ones are none, causal, sinusoidal"),
        ({"pooling": "median"}, "pooling is 'median'; it must be mean, max, cls, min."),
        ({"pooling": "worst"}, "pooling is 'worst'; it is now called 'min'."),
        ({"pooling": "cls", "window": 1}, "pooling cls with window 1: a CLS token would see its neighbours only."),
        ({"n_layers": 0}, "n_layers is 0; it must be a whole number from 1 to 100,000."),
        ({"encoding": "alibi", "options": {"clip": 1}}, "encoding alibi has no option 'clip'; it has ssmax."),
    ],
)
def test_what_cannot_be_built_gets_one_sentence(arguments, sentence):
    with pytest.raises(UserError) as error:
        Classifier(**arguments)
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (torch.zeros(3, 1, dtype=torch.int64), "a sequence of length 1 has no neighbours; the shortest length is 2."),
        (torch.zeros(3, 0, dtype=torch.int64), "sequences of shape (3, 0) are empty; there is nothing to classify."),
        (torch.zeros(8, dtype=torch.int64), "sequences are (8,) of int64; they must be int64 or int32 of shape"),
        (torch.zeros(3, 8), "sequences are (3, 8) of float32; they must be int64 or int32 of shape (batch, length)."),
        (torch.tensor([[3, 100]]), "value 100 is outside the vocabulary 0..99."),
        (torch.tensor([[3, -1]]), "value -1 is outside the vocabulary 0..99."),
    ],
)
def test_what_cannot_be_classified_gets_one_sentence(tokens, sentence):
    with pytest.raises(UserError) as error:
        small()(tokens)
    assert str(error.value).startswith(sentence)


def test_it_answers_in_words_and_numbers_alike():
    model = small(pooling="min")
    assert (
        model.says_sorted("3 5 5 9")
        == model.says_sorted([3, 5, 5, 9])
        == (model(torch.tensor([[3, 5, 5, 9]])).logits > 0)
    )
    with torch.no_grad():
        model.head[2].weight.zero_()
        model.head[2].bias.fill_(1.0)
    assert model.says_sorted("3 5 5 9") is True
    with torch.no_grad():
        model.head[2].bias.fill_(-1.0)
    assert model.says_sorted("3 5 5 9") is False
