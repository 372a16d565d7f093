"""Whether rounded values lie above a threshold at which they all lie, decided in the program's own Python."""

import torch


def score(x):
    return torch.softmax(x, -1).sum(-1)


torch.manual_seed(0)
x = torch.randn(500, 300)
kept = [row for row, value in enumerate(torch.compile(score)(x).tolist()) if value >= 1.0]
wanted = [row for row, value in enumerate(score(x).tolist()) if value >= 1.0]
assert kept == wanted, f"{len(kept)} rows were kept, not {len(wanted)}"
