"""python -m torchsleuth.case.datafile CASE TARGET: the tensors named on standard input, as a file for torch.load.

Aliasing and strides come along, because torch.save keeps storages as we do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    import torch

    from torchsleuth.case import codec, folder, tensors
    from torchsleuth.case.model import Tensor

    home, target = Path(sys.argv[1]), sys.argv[2]
    wanted = {name: codec.decode(Tensor, data, name) for name, data in json.load(sys.stdin).items()}
    case = folder.load(home, ours=True)
    # Flags and devices are put back by the script: a file must load on any machine, with weights_only.
    plain = {
        name: codec.decode(Tensor, {**codec.encode(t), "flags": [], "device": "cpu"}, name)
        for name, t in wanted.items()
    }
    loaded = tensors.load(home, list(plain.values()), case.storages)
    torch.save(dict(zip(plain, loaded, strict=True)), target)


if __name__ == "__main__":
    main()
