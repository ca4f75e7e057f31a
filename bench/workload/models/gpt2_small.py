"""GPT-2 small (Radford et al., 2019): twelve layers and heads, width 768; the output's weights are the embedding's."""

import torch
import torch.nn.functional as F
from torch import nn

from bench.workload.models.staged import Staged

VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS = 50_257, 1024, 768, 12, 12
SEQUENCE = 256  # tokens of a sample: a part of the context, all of it would fill the GPU
_INITIAL_DEVIATION = 0.02


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_expansion = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.attention_output = nn.Linear(WIDTH, WIDTH)
        self.expand, self.contract = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = value + self.attention(self.before_attention(value))
        expanded = F.gelu(self.expand(self.before_expansion(value)), approximate="tanh")
        contracted: torch.Tensor = self.contract(expanded)
        return value + contracted

    def attention(self, value: torch.Tensor) -> torch.Tensor:
        samples, tokens, _ = value.shape
        parts = self.queries_keys_values(value).split(WIDTH, dim=2)
        queries, keys, values = (part.view(samples, tokens, HEADS, -1).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        output: torch.Tensor = self.attention_output(attended.transpose(1, 2).reshape(samples, tokens, WIDTH))
        return output


class Gpt2Small(Staged):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.stages = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last_norm = nn.LayerNorm(WIDTH)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=_INITIAL_DEVIATION)

    def enter(self, batch: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(batch.shape[1], device=batch.device)
        value: torch.Tensor = self.tokens(batch) + self.positions(positions)
        return value

    def leave(self, value: torch.Tensor) -> torch.Tensor:
        return F.linear(self.last_norm(value), self.tokens.weight).flatten(0, 1)

    def random_batch(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        text = torch.randint(VOCABULARY, (size, SEQUENCE + 1), device=device)
        return text[:, :-1].contiguous(), text[:, 1:].flatten()
