"""A small transformer that runs in eager mode and does not compile.  `make demo` gives it to torchsleuth."""

import torch
import torch._inductor.config
from torch import nn
from torch.nn import functional as F

# torch plants this bug for testing its own tools: Inductor's C++ code for relu becomes the text "compile error!",
# which no C++ compiler accepts.  So the answer is known beforehand: one operator, aten.relu, in the feed-forward block.
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (part.view(shape).transpose(1, 2) for part in self.project_in(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(torch.relu(self.widen(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.feed_forward = FeedForward(width)
        self.norm_1 = nn.LayerNorm(width)
        self.norm_2 = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self, words: int = 100, width: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.predict = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.predict(self.blocks(self.embed(tokens)))


def main() -> None:
    torch.manual_seed(0)
    model = Transformer()
    tokens = torch.randint(0, 100, (2, 16))

    print("eager:   ", tuple(model(tokens).shape))
    print("compiled:", tuple(torch.compile(model)(tokens).shape))


if __name__ == "__main__":
    main()
