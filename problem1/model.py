"""The adder: an encoder-decoder Transformer as six blocks around two residual streams.

    source stream   embed -> Encoder L0 -> Encoder L1 -> norm = memory
    answer stream   embed -> Self L0 -> Cross L0 -> Self L1 -> Cross L1 -> norm -> ten logits per digit

Every block adds to its stream what its attention found and, except for the decoder's self-attention, what a small
feed-forward network makes of it. The six attentions are the six *sites*; gates and patches have one row per site.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, SupportsIndex, cast

import torch
from torch import Tensor, nn

from problem1.dataset import BOS, TOKENS, decode, encode_pairs, parse
from problem1.shared.attention import Attention, HeadActivations, Sinusoidal, feed_forward
from problem1.shared.errors import UserError
from problem1.shared.storage import load_model

KIND_NAMES = {"encoder": "Encoder", "self": "Decoder Self", "cross": "Decoder Cross"}
Head = str | SupportsIndex  # by its name, or by its place in `Adder.head_names`


class Block(nn.Module):
    """One residual step, pre-norm: x + attention(norm(x)), then x + feed_forward(norm(x)) unless kind is 'self'."""

    def __init__(self, kind: str, layer: int, d_model: int, n_heads: int, d_ff: int):
        super().__init__()
        self.kind, self.layer = kind, layer
        self.norm = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, n_heads)
        self.feed_forward = None if kind == "self" else feed_forward(d_model, d_ff)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        gate: Tensor | None = None,
        patch: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, HeadActivations | None]:
        reads = memory if self.kind == "cross" else None
        found, activations = self.attention(self.norm(x), reads, self.kind == "self", gate, patch, return_attention)
        return self.finish(x + found), activations

    def finish(self, x: Tensor) -> Tensor:
        return x if self.feed_forward is None else x + self.feed_forward(x)


def block_list(blocks: Iterable[Block]) -> Sequence[Block]:
    """An nn.ModuleList, which does not say what it is a list of."""
    return cast(Sequence[Block], nn.ModuleList(blocks))


@dataclass
class Activations:
    """Everything one run did; lists have one entry per site."""

    logits: Tensor = field(init=False)  # B answer-digits 10
    decoder_input: Tensor
    memory: Tensor = field(init=False)  # what the encoder hands to the decoder
    streams: list[Tensor] = field(default_factory=list)  # B length M, the stream as it enters the block
    attention: list[Tensor] = field(default_factory=list)  # B H Q K
    head_outputs: list[Tensor] = field(default_factory=list)  # B H Q D


class Answers(Protocol):
    """What answers sums: an adder, or an adder as a program."""

    @property
    def shape(self) -> dict[str, int]: ...
    def __call__(self, source: Tensor, decoder_input: Tensor) -> Tensor: ...
    def generate(self, source: Tensor) -> Tensor: ...


class Adder(nn.Module):
    def __init__(self, digits: int = 3, n_layers: int = 2, n_heads: int = 4, d_model: int = 128, d_ff: int = 512):
        super().__init__()
        sizes = {"n_heads": n_heads, "d_model": d_model, "d_ff": d_ff}
        self.shape = {"digits": digits, "n_layers": n_layers, **sizes}
        kinds = [("encoder", layer) for layer in range(n_layers)]
        kinds += [(kind, layer) for layer in range(n_layers) for kind in ("self", "cross")]
        self.encoder_sites, self.decoder_sites = range(n_layers), range(n_layers, 3 * n_layers)
        self.embedding = nn.Embedding(len(TOKENS), d_model)
        self.positions = Sinusoidal()
        self.blocks = block_list(Block(kind, layer, **sizes) for kind, layer in kinds)
        self.source_norm: nn.Module = nn.LayerNorm(d_model)
        self.answer_norm: nn.Module = nn.LayerNorm(d_model)
        self.readout = nn.Linear(d_model, 10)
        nn.init.xavier_uniform_(self.embedding.weight)
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)

    # --- running ---

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.positions.embed(x * x.shape[-1] ** 0.5)

    def through(
        self,
        sites: Iterable[int],
        x: Tensor,
        memory: Tensor | None = None,
        gates: Tensor | None = None,
        patches: Sequence[Tensor] | None = None,
        record: Activations | None = None,
    ) -> Tensor:
        """Pass a stream through the blocks of these sites; `gates` is (sites, heads) or (B, sites, heads)."""
        for site in sites:
            gate = None if gates is None else gates[..., site, :]
            patch = None if patches is None else patches[site]
            if record is not None:
                record.streams.append(x)
            x, activations = self.blocks[site](x, memory, gate, patch, return_attention=record is not None)
            if record is not None:
                record.attention.append(activations.weights)
                record.head_outputs.append(activations.outputs)
        return x

    def encode(
        self,
        source: Tensor,
        gates: Tensor | None = None,
        patches: Sequence[Tensor] | None = None,
        record: Activations | None = None,
    ) -> Tensor:
        return self.source_norm(self.through(self.encoder_sites, self.embed(source), None, gates, patches, record))

    def decode(
        self,
        decoder_input: Tensor,
        memory: Tensor,
        gates: Tensor | None = None,
        patches: Sequence[Tensor] | None = None,
        record: Activations | None = None,
    ) -> Tensor:
        x = self.through(self.decoder_sites, self.embed(decoder_input), memory, gates, patches, record)
        return self.readout(self.answer_norm(x))

    def forward(
        self,
        source: Tensor,
        decoder_input: Tensor,
        gates: Tensor | None = None,
        patches: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Logits (B, length of `decoder_input`, 10): at every position, the digit that comes next."""
        return self.decode(decoder_input, self.encode(source, gates, patches), gates, patches)

    def record(
        self,
        source: Tensor,
        decoder_input: Tensor,
        gates: Tensor | None = None,
        patches: Sequence[Tensor] | None = None,
    ) -> Activations:
        """The same run with everything kept."""
        record = Activations(decoder_input)
        record.memory = self.encode(source, gates, patches, record)
        record.logits = self.decode(decoder_input, record.memory, gates, patches, record)
        return record

    def resume(self, record: Activations, site: int, gates: Tensor, patches: Sequence[Tensor] | None = None) -> Tensor:
        """Logits of the recorded run with other gates from `site` on; what came before is not computed again."""
        block, patch = self.blocks[site], None if patches is None else patches[site]
        x = record.streams[site] + block.attention.mix(record.head_outputs[site], gates[..., site, :], patch)
        x = block.finish(x)
        if site in self.encoder_sites:
            rest = self.encoder_sites[site + 1 :]
            memory = self.source_norm(self.through(rest, x, None, gates, patches))
            return self.decode(record.decoder_input, memory, gates, patches)
        rest = range(site + 1, self.decoder_sites.stop)
        return self.readout(self.answer_norm(self.through(rest, x, record.memory, gates, patches)))

    @torch.inference_mode()
    def generate(self, source: Tensor, gates: Tensor | None = None, patches: Sequence[Tensor] | None = None) -> Tensor:
        """Greedy decoding: encode once, then write the answer digit by digit, most significant first."""
        memory = self.encode(source, gates, patches)
        decoder_input = torch.full_like(source[:, :1], BOS)
        for _ in range(self.shape["digits"] + 1):
            logits = self.decode(decoder_input, memory, gates, patches)
            decoder_input = torch.cat([decoder_input, logits[:, -1:].argmax(-1)], dim=1)
        return decoder_input[:, 1:]

    def add(self, text: str) -> str:
        """'663+497' -> '1160', as the model has it."""
        source, _ = encode_pairs(parse(text, self.shape["digits"]), self.shape["digits"])
        return decode(self.generate(source)[0])

    # --- heads and gates ---

    @property
    def head_names(self) -> list[str]:
        """'Encoder L0 H0', ...: in the order of a flattened (sites, heads) gate tensor."""
        return [
            f"{KIND_NAMES[block.kind]} L{block.layer} H{head}"
            for block in self.blocks
            for head in range(self.shape["n_heads"])
        ]

    def head_number(self, head: Head) -> int:
        """The place of a head in `head_names`, whether it is given by its name or by this number."""
        names = self.head_names
        number = names.index(head) if isinstance(head, str) and head in names else head
        if not isinstance(number, SupportsIndex) or number.__index__() not in range(len(names)):
            known = f"{names[0]} to {names[-1]}, or by number 0 to {len(names) - 1}"
            raise UserError(f"{head!r} is no head of this adder; its heads are {known}.")
        return number.__index__()

    def site_of(self, head: Head) -> tuple[int, int]:
        """Its site, and its number there."""
        return divmod(self.head_number(head), self.shape["n_heads"])

    def gates(self, *removed: Head) -> Tensor:
        """A gate tensor (sites, heads) with these heads closed."""
        gates = torch.ones(len(self.head_names))
        gates[[self.head_number(head) for head in removed]] = 0
        return gates.view(len(self.blocks), -1)


def load_adder(path: str | Path) -> Adder:
    return load_model(path, Adder, "digits")
