"""Training with too large a step: it does not settle, and two runs soon have nothing in common."""

import torch

torch.manual_seed(0)
data, target = torch.randn(64, 16), torch.randn(64, 1)


def train(wrap):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    run = wrap(model)
    for _ in range(200):
        optimizer.zero_grad()
        loss = (run(data) - target).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


expected, got = train(lambda model: model), train(torch.compile)
assert abs(expected - got) < 1e-3 * abs(expected), (expected, got)
