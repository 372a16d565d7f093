"""A backend with a wrong backward of sigmoid, in a training loop that compares the losses."""

import torch

from torchsleuth.backends import faulty

torch.manual_seed(0)
data, target = torch.randn(64, 16), torch.randn(64, 1)


def train(wrap):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Sigmoid(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = wrap(model)
    for _ in range(5):
        optimizer.zero_grad()
        loss = (run(data) - target).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def compiled(model):
    return torch.compile(model, backend=faulty("sigmoid_backward", "accuracy", where="backward"))


expected, got = train(lambda model: model), train(compiled)
assert abs(expected - got) < 1e-5 * abs(expected), (expected, got)
