"""What can be read off a script, beside what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsleuth.commands.audit_scripts import is_same_script, other_thing
from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic

SETTING = "torch._inductor.config.freezing = True"
FALLBACK = "from torch._inductor import lowering\nlowering.make_fallback(torch.ops.aten.relu)"
SCRIPT = f"""
{SETTING}
try:
    from torch._inductor import lowering
    lowering.make_fallback(torch.ops.aten.relu)
except AttributeError:
    pass
torch.compile(f, backend='aot_eager')(x)
"""


@pytest.mark.parametrize(
    ("kind", "topic", "about", "why"),
    [
        (ClaimKind.PASSES, Topic.BACKEND, "aot_eager", ""),
        (ClaimKind.PASSES, Topic.BACKEND, "eager", "does not use this backend"),
        (ClaimKind.FAILS, Topic.BACKEND, "inductor", ""),  # the default, which no script names
        (ClaimKind.NEEDED, Topic.PART, SETTING, "still has this setting"),
        (ClaimKind.NEEDED, Topic.SETTING, SETTING.replace("freezing", "debug"), ""),
        (ClaimKind.NEEDED, Topic.PART, "torch.relu", ""),
        (ClaimKind.HELPS, Topic.WORKAROUND, f"remove `{SETTING}`", "still has what is to be removed"),
        (ClaimKind.HELPS, Topic.WORKAROUND, "remove `torch._dynamo.config.x = 1`", ""),
        (ClaimKind.HELPS, Topic.WORKAROUND, FALLBACK, ""),
        (ClaimKind.HELPS, Topic.WORKAROUND, FALLBACK.replace("relu", "sin"), "does not hold this workaround"),
        (ClaimKind.HELPS, Topic.WORKAROUND, 'torch.compile(..., backend="aot_eager")', ""),
        (ClaimKind.HELPS, Topic.WORKAROUND, 'torch.compile(..., backend="eager")', "does not use this backend"),
        (ClaimKind.HELPS, Topic.WORKAROUND, "torch.compile(..., dynamic=False)", ""),
    ],
)
def test_the_script_does_what_the_claim_is_about(
    tmp_path: Path, kind: ClaimKind, topic: Topic, about: str, why: str
) -> None:
    (tmp_path / "repro.py").write_text(SCRIPT)
    assert other_thing(Claim(kind, topic, about, "", ("j1",)), tmp_path / "repro.py") == why


def test_a_docstring_makes_no_other_script_but_code_and_data_do(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "repro.py", tmp_path / "other" / "repro.py"
    for script, text in ((one, '"""Fails."""\nimport torch\n'), (other, "import torch")):
        script.parent.mkdir()
        script.write_text(text)
    assert is_same_script(one, other)
    (other.parent / "repro_data.pt").write_bytes(b"1")
    assert not is_same_script(one, other)
    (one.parent / "repro_data.pt").write_bytes(b"1")
    assert is_same_script(one, other)
    one.write_text("import torch  # edited")
    assert not is_same_script(one, other)
    one.write_text("not python (")
    assert not is_same_script(one, other)
