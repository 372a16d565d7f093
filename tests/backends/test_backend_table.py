"""One table: what `torch.compile` finds, what `torchsleuth backends` prints and what the page says are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

from command_line import RunCli
from torchsleuth.backend_table import TABLE
from torchsleuth.backends import BadRecipe, Recipe, compose, debugging
from torchsleuth.backends.compose import with_options
from torchsleuth.backends.recipes import RECIPES

PAGE = Path(__file__).parents[2] / "docs" / "backends.md"


def test_the_table_has_every_entry_point_and_no_other_name() -> None:
    points = [p for p in metadata.entry_points(group="torch_dynamo_backends") if p.value.startswith("torchsleuth.")]
    assert sorted(p.name for p in points) == sorted(row.name for row in TABLE)
    for point in points:
        assert point.load().__name__ == point.name


def test_the_table_has_every_recipe_and_each_is_another_one() -> None:
    assert [row.name for row in TABLE if row.name in RECIPES] == list(RECIPES)
    assert len(set(RECIPES.values())) == len(RECIPES)


def test_register_makes_the_names_known() -> None:
    debugging.register()
    debugging.register()
    assert set(RECIPES) <= set(torch._dynamo.list_backends(exclude_tags=()))


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for row in TABLE:
        assert f"| `{row.name}` | {row.runs} | {row.rules_out} |" in page


def test_the_command_prints_it(run_cli: RunCli) -> None:
    told = run_cli("backends")
    assert (told.returncode, told.stderr) == (0, "")
    assert [line for line in told.stdout.splitlines() if not line.startswith(" ")] == [row.name for row in TABLE]
    rows = json.loads(run_cli("backends", "--json").stdout)
    assert rows["schema"] == 1
    assert [(r["name"], r["runs"], r["rules_out"]) for r in rows["backends"]] == [
        (r.name, r.runs, r.rules_out) for r in TABLE
    ]


def test_the_command_does_not_wait_for_torch() -> None:
    code = "import sys\nfrom torchsleuth.cli.backends import command\ncommand([], standalone_mode=False)\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "assert 'torch' not in sys.modules"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class TestComposing:
    def test_each_gives_the_fields_that_it_sets(self) -> None:
        made = compose("sleuth_aot_decomp", "sleuth_aot_min_cut", "sleuth_fake", "sleuth_schema")
        assert made == Recipe("aot", "min_cut", "inductor", checks=("fake", "schema"))

    def test_the_order_of_names_is_the_order_of_checks(self) -> None:
        assert compose("sleuth_schema", "sleuth_fake").checks == ("schema", "fake")
        assert compose("sleuth_fake", "sleuth_fake").checks == ("fake",)

    def test_a_recipe_of_ones_own_goes_with_names(self) -> None:
        assert compose(Recipe(marked=True), "sleuth_schema") == Recipe(checks=("schema",), marked=True)

    def test_options_have_the_last_word(self) -> None:
        made = compose("sleuth_pre_dispatch", "sleuth_fake", capture="pre_dispatch")
        assert made == Recipe("pre_dispatch", checks=("fake",))

    def test_options_of_torch_compile(self) -> None:
        fake = RECIPES["sleuth_fake"]
        assert with_options(fake, {}) == fake
        assert with_options(fake, {"capture": "dynamo"}) == Recipe(checks=("fake",))
        assert with_options(fake, {"with": ["sleuth_schema"]}) == compose("sleuth_fake", "sleuth_schema")
        assert with_options(fake, {"with": "sleuth_schema"}) == compose("sleuth_fake", "sleuth_schema")
        with_both = with_options(fake, {"with": ["sleuth_aot_decomp"], "decompositions": "core"})
        assert with_both == Recipe("aot", decompositions="core", checks=("fake",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chekcs": ["fake"]}, "there is no option 'chekcs'; there are capture, partition"),
        ({"checks": ["shapes"]}, "checks='shapes'; choose one of schema, fake."),
        ({"checks": "fake"}, "checks must be a list; this is 'fake'."),
        ({"capture": "export"}, "capture='export'; choose one of dynamo, pre_dispatch, aot."),
        ({"decompositions": "all"}, "decompositions='all'; choose one of none, core, inductor."),
        ({"decompositions": ["relu"]}, "decompositions must be one of their names or a mapping"),
        ({"partition": "min_cut"}, "partition is for graphs of AOTAutograd: set capture='aot'"),
        ({"run": "invoke_subgraph"}, "run='invoke_subgraph' is for graphs of AOTAutograd"),
        ({"modes": [3]}, "modes: 3 is no mode and no function that makes one."),
        ({"with": ["inductor"]}, "'inductor' cannot be composed; choose from sleuth_eager,"),
    ],
)
def test_what_does_not_fit_is_said(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadRecipe) as told:
        with_options(RECIPES["sleuth_eager"], options)
    assert message in str(told.value)


def test_two_that_do_not_go_together_are_named() -> None:
    with pytest.raises(BadRecipe, match=r"sleuth_pre_dispatch has capture='pre_dispatch' and sleuth_aot has capture"):
        compose("sleuth_pre_dispatch", "sleuth_aot")
