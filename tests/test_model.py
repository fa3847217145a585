import pytest
import torch
from torch import nn

from problem1.dataset import decoder_input, encode_pairs, split_pairs
from problem1.model import Adder, load_adder, save_adder
from problem1.train import answers_right


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = Adder()
    for parameter in model.parameters():
        if parameter.ndim == 1:  # biases start at zero, where a mistake would not show
            nn.init.normal_(parameter, mean=parameter.detach().mean().item(), std=0.1)
    return model.eval()


@pytest.fixture
def batch():
    return encode_pairs(split_pairs("test")[:40])


def test_shape_of_the_assignment(model):
    assert len(model.head_names) == 24 == len(set(model.head_names))
    for kind in ("Encoder", "Decoder Self", "Decoder Cross"):
        assert sum(name.startswith(f"{kind} L") for name in model.head_names) == 8
    assert model.head_names[0] == "Encoder L0 H0" and model.head_names[-1] == "Decoder Cross L1 H3"


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_equals_pytorchs_transformer_with_the_same_weights(model, batch):
    theirs = nn.Transformer(128, 4, 2, 2, 512, dropout=0.0, batch_first=True, norm_first=True).eval()

    def copy_attention(to, ours):
        parts = (ours.query, ours.key, ours.value)
        to.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        to.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        to.out_proj.load_state_dict(ours.output.state_dict())

    def copy_feed_forward(layer, norm, ours):
        norm.load_state_dict(ours[0].state_dict())
        layer.linear1.load_state_dict(ours[1].state_dict())
        layer.linear2.load_state_dict(ours[3].state_dict())

    with torch.no_grad():
        for layer, block in zip(theirs.encoder.layers, model.blocks[:2], strict=True):
            layer.norm1.load_state_dict(block.norm.state_dict())
            copy_attention(layer.self_attn, block.attention)
            copy_feed_forward(layer, layer.norm2, block.feed_forward)
        for layer, own, cross in zip(theirs.decoder.layers, model.blocks[2::2], model.blocks[3::2], strict=True):
            layer.norm1.load_state_dict(own.norm.state_dict())
            layer.norm2.load_state_dict(cross.norm.state_dict())
            copy_attention(layer.self_attn, own.attention)
            copy_attention(layer.multihead_attn, cross.attention)
            copy_feed_forward(layer, layer.norm3, cross.feed_forward)
        theirs.encoder.norm.load_state_dict(model.source_norm.state_dict())
        theirs.decoder.norm.load_state_dict(model.answer_norm.state_dict())
        source, target = batch
        written = decoder_input(target)
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        expected = model.readout(theirs(model.embed(source), model.embed(written), tgt_mask=mask))
        torch.testing.assert_close(model(source, written), expected, atol=1e-4, rtol=0)


def test_the_decoder_cannot_see_the_future(model, batch):
    source, target = batch
    written = decoder_input(target)
    for position in range(1, 4):
        changed = written.clone()
        changed[:, position:] = (changed[:, position:] + 1) % 10
        difference = (model(source, changed) - model(source, written)).abs()
        assert difference[:, :position].max() < 1e-6 < difference[:, position].max()


def test_a_digit_is_right_greedily_exactly_when_it_is_right_given_the_right_prefix(model, batch):
    """An untrained model writes one and the same answer; answers to other questions make both verdicts occur."""
    source, _ = batch
    answer = model.generate(source)
    half = answer.clone()
    half[::2, 2] = (half[::2, 2] + 1) % 10
    for target in (answer, half):
        right = answers_right(model(source, decoder_input(target)), target)
        assert right.tolist() == (answer == target).all(1).tolist()


def test_a_trace_is_the_same_run(model, batch):
    source, written = batch[0], decoder_input(batch[1])
    trace = model.trace(source, written)
    torch.testing.assert_close(trace.logits, model(source, written), atol=1e-5, rtol=0)
    assert [tuple(w.shape[1:]) for w in trace.weights] == [(4, 7, 7)] * 2 + [(4, 4, 4), (4, 4, 7)] * 2
    for weights in trace.weights:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@pytest.mark.parametrize("head", range(24))
def test_resuming_after_a_head_equals_running_everything_again(model, batch, head):
    source, written = batch[0], decoder_input(batch[1])
    trace, other = model.trace(source, written), model.trace(source.flip(0), written.flip(0))
    gates = model.gates(head)
    for patches in (None, other.heads):
        resumed = model.resume(trace, head // 4, gates, patches)
        torch.testing.assert_close(resumed, model(source, written, gates, patches), atol=1e-5, rtol=0)
    assert not torch.allclose(model.resume(trace, head // 4, gates), trace.logits, atol=1e-4)


def test_patching_every_head_from_another_run_of_the_same_answer_makes_it_that_run(model, batch):
    """All that the answer stream knows of the source comes through cross-attention."""
    source, written = batch[0], decoder_input(batch[1])
    other = model.trace(source.flip(0), written)
    gates = torch.ones(6, 4)
    gates[3] = gates[5] = 0
    torch.testing.assert_close(model(source, written, gates, other.heads), other.logits, atol=1e-5, rtol=0)


def test_saved_and_loaded_it_is_the_same(model, batch, tmp_path):
    save_adder(model, tmp_path / "adder.safetensors")
    loaded = load_adder(tmp_path / "adder.safetensors")
    assert torch.equal(loaded.generate(batch[0]), model.generate(batch[0]))


def test_files_that_are_no_adder_get_one_sentence(model, tmp_path):
    file = tmp_path / "adder.safetensors"
    with pytest.raises(ValueError, match="does not exist"):
        load_adder(file)
    save_adder(model, file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load_adder(file)
    model.shape["width"] = 64
    save_adder(model, file)
    with pytest.raises(ValueError, match=r"does not fit this model: .* in the file, .* in the model"):
        load_adder(file)
