import numpy as np
import pytest
import torch
from torch import nn

from problem1.dataset import encode_pairs, shift_right, split_pairs
from problem1.model import Adder, load_adder
from problem1.shared.errors import UserError
from problem1.shared.storage import save_model, save_tensors
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
        decoder_input = shift_right(target)
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        expected = model.readout(theirs(model.embed(source), model.embed(decoder_input), tgt_mask=mask))
        torch.testing.assert_close(model(source, decoder_input), expected, atol=1e-4, rtol=0)


def test_the_decoder_cannot_see_the_future(model, batch):
    source, target = batch
    decoder_input = shift_right(target)
    for position in range(1, 4):
        changed = decoder_input.clone()
        changed[:, position:] = (changed[:, position:] + 1) % 10
        difference = (model(source, changed) - model(source, decoder_input)).abs()
        assert difference[:, :position].max() < 1e-6 < difference[:, position].max()


def test_a_digit_is_right_greedily_exactly_when_it_is_right_given_the_right_prefix(model, batch):
    """An untrained model writes one and the same answer; other targets make both right and wrong answers occur."""
    source, _ = batch
    answer = model.generate(source)
    half = answer.clone()
    half[::2, 2] = (half[::2, 2] + 1) % 10
    for target in (answer, half):
        right = answers_right(model(source, shift_right(target)), target)
        assert right.tolist() == (answer == target).all(1).tolist()


def test_a_recorded_run_is_the_same_run(model, batch):
    source, decoder_input = batch[0], shift_right(batch[1])
    record = model.record(source, decoder_input)
    torch.testing.assert_close(record.logits, model(source, decoder_input), atol=1e-5, rtol=0)
    assert [tuple(w.shape[1:]) for w in record.attention] == [(4, 7, 7)] * 2 + [(4, 4, 4), (4, 4, 7)] * 2
    for weights in record.attention:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@pytest.mark.parametrize("head", range(24))
def test_resuming_after_a_head_equals_running_everything_again(model, batch, head):
    source, decoder_input = batch[0], shift_right(batch[1])
    record, other = model.record(source, decoder_input), model.record(source.flip(0), decoder_input.flip(0))
    gates = model.gates(head)
    for patches in (None, other.head_outputs):
        resumed = model.resume(record, head // 4, gates, patches)
        torch.testing.assert_close(resumed, model(source, decoder_input, gates, patches), atol=1e-5, rtol=0)
    assert not torch.allclose(model.resume(record, head // 4, gates), record.logits, atol=1e-4)


def test_patching_every_head_from_another_run_of_the_same_answer_makes_it_that_run(model, batch):
    """All that the answer stream knows of the source comes through cross-attention."""
    source, decoder_input = batch[0], shift_right(batch[1])
    other = model.record(source.flip(0), decoder_input)
    gates = torch.ones(6, 4)
    gates[3] = gates[5] = 0
    torch.testing.assert_close(model(source, decoder_input, gates, other.head_outputs), other.logits, atol=1e-5, rtol=0)


def test_gates_close_heads_by_name_and_by_number(model):
    gates = model.gates("Encoder L0 H0", 5, "Decoder Cross L1 H3")
    assert gates.shape == (6, 4) and (gates.flatten() == 0).nonzero().flatten().tolist() == [0, 5, 23]
    assert torch.equal(model.gates(*range(24)), torch.zeros(6, 4)) and torch.equal(model.gates(), torch.ones(6, 4))
    assert torch.equal(model.gates(np.int64(7), torch.tensor(8)), model.gates(7, 8))
    for number, name in enumerate(model.head_names):
        assert model.head_number(name) == model.head_number(number) == number
        assert model.site_of(name) == (number // 4, number % 4)


@pytest.mark.parametrize("head", [99, 24, -1, 2.5, None, "Encoder L9 H0", "encoder l0 h0", ["Encoder L0 H0"]])
def test_a_head_that_does_not_exist_gets_a_sentence_that_says_which_do(model, head):
    with pytest.raises(UserError) as error:
        model.gates(head)
    known = "Encoder L0 H0 to Decoder Cross L1 H3, or by number 0 to 23."
    assert str(error.value) == f"{head!r} is no head of this adder; its heads are {known}"


def test_saved_and_loaded_it_is_the_same(model, batch, tmp_path):
    save_model(model, tmp_path / "adder.safetensors")
    loaded = load_adder(tmp_path / "adder.safetensors")
    assert torch.equal(loaded.generate(batch[0]), model.generate(batch[0]))


def test_files_that_are_no_adder_get_one_sentence(model, tmp_path):
    file = tmp_path / "adder.safetensors"
    with pytest.raises(UserError, match="does not exist"):
        load_adder(file)
    save_tensors(file, {"weight": torch.ones(2)}, {})
    with pytest.raises(UserError, match="holds no adder"):
        load_adder(file)
    save_model(model, file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match="not a readable safetensors file"):
        load_adder(file)
    model.shape["d_model"] = 64
    save_model(model, file)
    with pytest.raises(UserError, match=r"does not fit this model: .* in the file, .* in the model"):
        load_adder(file)
