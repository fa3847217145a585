"""The adder: an encoder-decoder Transformer as six blocks around two residual streams.

    source stream   embed -> Encoder L0 -> Encoder L1 -> norm = memory
    answer stream   embed -> Self L0 -> Cross L0 -> Self L1 -> Cross L1 -> norm -> ten logits per digit

Every block adds to its stream what its attention found and, except for the decoder's self-attention, what a small
feed-forward network makes of it. The six attentions are the six *sites*; gates and patches have one row per site.
"""

import json
from dataclasses import dataclass

import torch
from torch import nn

from problem1.attention import Attention, Sinusoidal
from problem1.dataset import BOS, TOKENS, decode, encode_pairs, parse
from problem1.storage import load_into, load_tensors, save_tensors

KIND_NAMES = {"encoder": "Encoder", "self": "Decoder Self", "cross": "Decoder Cross"}


class Block(nn.Module):
    """One residual step, pre-norm: x + attention(norm(x)), then x + feed_forward(norm(x)) unless kind is 'self'."""

    def __init__(self, kind, layer, width, heads, hidden):
        super().__init__()
        self.kind, self.layer = kind, layer
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = None if kind == "self" else feed_forward(width, hidden)

    def forward(self, x, memory=None, gate=None, patch=None, look=False):
        reads = memory if self.kind == "cross" else None
        found, seen = self.attention(self.norm(x), reads, self.kind == "self", gate, patch, look)
        return self.finish(x + found), seen

    def finish(self, x):
        return x if self.feed_forward is None else x + self.feed_forward(x)


def feed_forward(width, hidden):
    network = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
    for linear in (network[1], network[3]):
        nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(linear.bias)
    return network


@dataclass
class Trace:
    """Everything one run did; lists have one entry per site."""

    logits: torch.Tensor  # B answer-digits 10
    written: torch.Tensor  # the decoder's input
    memory: torch.Tensor  # what the encoder hands to the decoder
    streams: list  # B length M, the stream as it enters the block
    weights: list  # B H Q K
    heads: list  # B H Q D


class Adder(nn.Module):
    def __init__(self, digits=3, layers=2, heads=4, width=128, hidden=512):
        super().__init__()
        self.shape = {"digits": digits, "layers": layers, "heads": heads, "width": width, "hidden": hidden}
        kinds = [("encoder", layer) for layer in range(layers)]
        kinds += [(kind, layer) for layer in range(layers) for kind in ("self", "cross")]
        self.encoder_sites, self.decoder_sites = range(layers), range(layers, 3 * layers)
        self.embedding = nn.Embedding(len(TOKENS), width)
        self.positions = Sinusoidal()
        self.blocks = nn.ModuleList(Block(kind, layer, width, heads, hidden) for kind, layer in kinds)
        self.source_norm, self.answer_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.readout = nn.Linear(width, 10)
        nn.init.xavier_uniform_(self.embedding.weight)
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    # --- running ---

    def embed(self, tokens):
        x = self.embedding(tokens)
        return self.positions.embed(x * x.shape[-1] ** 0.5)

    def through(self, sites, x, memory=None, gates=None, patches=None, trace=None):
        """Pass a stream through the blocks of these sites; `gates` is (sites, heads) or (B, sites, heads)."""
        for site in sites:
            gate = None if gates is None else gates[..., site, :]
            patch = None if patches is None else patches[site]
            if trace is not None:
                trace.streams.append(x)
            x, seen = self.blocks[site](x, memory, gate, patch, look=trace is not None)
            if trace is not None:
                trace.weights.append(seen.weights)
                trace.heads.append(seen.heads)
        return x

    def encode(self, source, gates=None, patches=None, trace=None):
        return self.source_norm(self.through(self.encoder_sites, self.embed(source), None, gates, patches, trace))

    def decode(self, written, memory, gates=None, patches=None, trace=None):
        x = self.through(self.decoder_sites, self.embed(written), memory, gates, patches, trace)
        return self.readout(self.answer_norm(x))

    def forward(self, source, written, gates=None, patches=None):
        """Logits (B, length of `written`, 10): at every position, the digit that comes next."""
        return self.decode(written, self.encode(source, gates, patches), gates, patches)

    def trace(self, source, written, gates=None, patches=None):
        """The same run with everything kept."""
        trace = Trace(None, written, None, [], [], [])
        trace.memory = self.encode(source, gates, patches, trace)
        trace.logits = self.decode(written, trace.memory, gates, patches, trace)
        return trace

    def resume(self, trace, site, gates, patches=None):
        """Logits of the traced run with other gates at `site` and after it; what came before is not computed again."""
        block, patch = self.blocks[site], None if patches is None else patches[site]
        x = trace.streams[site] + block.attention.mix(trace.heads[site], gates[..., site, :], patch)
        x = block.finish(x)
        if site in self.encoder_sites:
            rest = self.encoder_sites[site + 1 :]
            memory = self.source_norm(self.through(rest, x, None, gates, patches))
            return self.decode(trace.written, memory, gates, patches)
        rest = range(site + 1, self.decoder_sites.stop)
        return self.readout(self.answer_norm(self.through(rest, x, trace.memory, gates, patches)))

    @torch.inference_mode()
    def generate(self, source, gates=None, patches=None):
        """Greedy decoding: encode once, then write the answer digit by digit, most significant first."""
        memory = self.encode(source, gates, patches)
        written = torch.full_like(source[:, :1], BOS)
        for _ in range(self.shape["digits"] + 1):
            logits = self.decode(written, memory, gates, patches)
            written = torch.cat([written, logits[:, -1:].argmax(-1)], dim=1)
        return written[:, 1:]

    def add(self, text):
        """'663+497' -> '1160', as the model has it."""
        source, _ = encode_pairs(parse(text, self.shape["digits"]), self.shape["digits"])
        return decode(self.generate(source)[0])

    # --- heads and gates ---

    @property
    def head_names(self):
        """'Encoder L0 H0', ...: in the order of a flattened (sites, heads) gate tensor."""
        return [
            f"{KIND_NAMES[block.kind]} L{block.layer} H{head}"
            for block in self.blocks
            for head in range(self.shape["heads"])
        ]

    def gates(self, *removed):
        """A gate tensor with these heads (numbers in the order of `head_names`) closed."""
        gates = torch.ones(len(self.blocks) * self.shape["heads"])
        gates[list(removed)] = 0
        return gates.view(len(self.blocks), -1)


def save_adder(model, path, **about):
    save_tensors(path, dict(model.named_parameters()), {"shape": model.shape, **about})


def load_adder(path):
    tensors, about = load_tensors(path)
    if "shape" not in about:
        raise ValueError(f"{path} holds no adder: its header names no shape (it says {json.dumps(about)}).")
    return load_into(Adder(**about["shape"]), tensors, path).eval()
