"""A side effect that Dynamo loses, in a recurrence that is compared to the last bit."""

import torch

LOG = []


def make_step():
    log = LOG

    class Recorder:
        def note(self):
            log.append("a step")

    def step(x):
        Recorder().note()
        return 3.9 * x * (1 - x)

    return step


x = torch.tensor([0.3, 0.4])
want = make_step()(x)
got = torch.compile(make_step(), fullgraph=True)(x)
assert torch.equal(want, got)
assert len(LOG) == 2, f"{len(LOG)} steps are on record"
