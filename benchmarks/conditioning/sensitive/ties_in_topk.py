"""The largest of values that differ by rounding only, as a training step that picks samples would have them."""

import torch


class Pick(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(32, 32)

    def forward(self, x):
        norms = torch.nn.functional.normalize(self.net(x), dim=-1).square().sum(-1)
        return x[norms.topk(4).indices]


torch.manual_seed(0)
model, x = Pick(), torch.randn(64, 32)
torch.testing.assert_close(torch.compile(model)(x), model(x))
