"""Seeds of a script: which it sets, which it lost, and the script with another or without any."""

from __future__ import annotations

import pytest

from torchsleuth.reduce.source import seeds

WHOLE = "import torch\n\ntorch.manual_seed(0)\nx = torch.randn(2)\n"


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.randn(2)", "x = torch.rand(2)", "x.uniform_()", "x = np.random.default_rng(0).normal()",
        "m = torch.nn.Linear(2, 2)", "F.dropout(x)", "m = AutoModel.from_config(c)", "random.shuffle(x)",
    ],
)  # fmt: skip
def test_what_may_draw(line: str) -> None:
    assert seeds.may_draw(line)


def test_what_does_not_draw() -> None:
    assert not seeds.may_draw("x = torch.ones(2)\ny = torch.relu(x)\nz = torch.nn.functional.relu(y)\n")


def test_a_candidate_that_draws_without_the_seed_of_the_whole_has_lost_it() -> None:
    assert not seeds.lost_a_seed(WHOLE, WHOLE)
    assert seeds.lost_a_seed(WHOLE.replace("torch.manual_seed(0)", "pass"), WHOLE)
    assert not seeds.lost_a_seed("import torch\nx = torch.ones(2)\n", WHOLE), "it draws nothing"
    assert not seeds.lost_a_seed("x = torch.randn(2)\n", "x = torch.randn(2)\n"), "the whole had none"
    numpy = "np.random.seed(0)\ntorch.manual_seed(0)\nx = np.random.rand()\n"
    assert seeds.lost_a_seed(numpy.replace("np.random.seed(0)\n", ""), numpy)


def test_another_state_to_start_with_binds_no_name() -> None:
    text = seeds.with_seed("from __future__ import annotations\nx = torch.randn(2)\n", 3)
    with pytest.raises(NameError, match="torch"):
        exec(text, {})


def test_the_same_as_a_part_of_the_script() -> None:
    text = seeds.seeded("x = torch.randn(2).tolist()\n", 3)
    first: dict[str, object] = {}
    second: dict[str, object] = {}
    exec(text, first)
    exec(text, second)
    assert first["x"] == second["x"]


def test_a_script_without_its_seeds() -> None:
    text = (
        "import torch\ndef f():\n    torch.cuda.manual_seed_all(1)\n    return torch.randn(2)\ntorch.manual_seed(0)\n"
    )
    bare = seeds.without_seeds(text)
    assert bare is not None
    assert "seed" not in bare
    assert "randn" in bare
    assert seeds.without_seeds("x = torch.randn(2)\n") is None
    assert seeds.without_seeds("g = torch.Generator().manual_seed(0)\n") is None, "its value is used"
