"""A warm process for one trial, where forking is unsafe: `python -m torchsleuth.judge.worker [cuda]`.

Eager and compiled run in this one process: a second one would cost the seconds of another warm-up.
"""

from __future__ import annotations

import sys

from torchsleuth.judge import child, warm
from torchsleuth.judge.order import Order
from torchsleuth.judge.redirect import redirect


def main() -> None:
    warm.warm_up(forks=False, cuda="cuda" in sys.argv[1:])
    line = sys.stdin.buffer.readline()
    if not line:
        return
    order = Order.from_line(line)
    redirect(order.output)
    child.serve(order)


if __name__ == "__main__":
    main()
