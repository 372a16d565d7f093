"""The sentences that the pages share: each is the text of a Claim, or a list of what Claims are about."""

from __future__ import annotations

from collections.abc import Sequence

from torchsleuth.diagnose.claim import Claim, ClaimKind, Topic, of
from torchsleuth.write.findings import Finding

_MOST_PARTS = 12


def backends(claims: Sequence[Claim]) -> str:
    """Say on which backends it fails and passes, in a line: "eager passes, inductor fails"."""
    return ", ".join(f"{one.about} {one.kind.value}" for one in of(claims, Topic.BACKEND))


def needed(claims: Sequence[Claim]) -> tuple[str, ...]:
    """List what was taken out alone, and with which it passed then."""
    return tuple(one.about for one in of(claims, Topic.PART, ClaimKind.NEEDED))


def not_needed(claims: Sequence[Claim]) -> tuple[str, ...]:
    """List what was taken out or changed alone, and with which it failed in the same way."""
    parts = of(claims, Topic.PART, ClaimKind.FAILS)
    return tuple(one.about for one in (*parts, *of(claims, Topic.VARIATION, ClaimKind.FAILS)))


def varies(claims: Sequence[Claim]) -> tuple[str, ...]:
    return tuple(one.text for one in of(claims, Topic.VARIATION))


def inside(claims: Sequence[Claim]) -> tuple[str, ...]:
    return tuple(one.text for one in of(claims, Topic.INSIDE))


def cause(claims: Sequence[Claim]) -> str:
    """Say which step inside the compiler is to blame, as it stands on the terminal."""
    text = next((one.text for one in of(claims, Topic.INSIDE, ClaimKind.CULPRIT)), "")
    name, _, when = text.removeprefix("Fails in the ").removesuffix(".").partition(": ")
    return f"the {name} ({when})" if when else ""


def listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_PARTS
    shown = list(names[:_MOST_PARTS]) if more > 1 else list(names)
    return "; ".join([*shown, *([f"and {more} more"] if more > 1 else [])])


def on_backend(claims: Sequence[Claim], backend: str) -> ClaimKind | None:
    """Return whether it was shown to fail or to pass with a backend."""
    return next((one.kind for one in of(claims, Topic.BACKEND) if one.about == backend), None)


def fresh(claims: Sequence[Claim]) -> str:
    """Say in how many fresh processes the repro failed, as it stands on the terminal."""
    text = next((one.text for one in of(claims, Topic.REPRO, ClaimKind.FAILS)), "")
    return text.removesuffix(".").removesuffix(" without torchsleuth").replace("Failed in the same", "failed the same")


def verified(finding: Finding) -> str:
    """Say how often the repro failed, and that it passes with compilation off: two Claims in a line."""
    return " ".join(one.text for one in of(finding.claims, Topic.REPRO) if one.kind is not ClaimKind.CULPRIT)


def facts(claims: Sequence[Claim]) -> list[str]:
    """The paragraphs of a docstring: on which backends, what is needed, what is not."""
    fails = [f'backend="{one.about}"' for one in of(claims, Topic.BACKEND, ClaimKind.FAILS)]
    passes = [f'"{one.about}"' for one in of(claims, Topic.BACKEND, ClaimKind.PASSES)]
    off = [one.text for one in of(claims, Topic.REPRO, ClaimKind.PASSES)]
    first = [f"Fails with {', '.join(fails)}."] if fails else []
    first += [f"Passes with backend {', '.join(passes)}."] if passes else []
    lines = [" ".join([*first, *off])] if first or off else []
    lines += [one.text for one in of(claims, Topic.INSIDE, ClaimKind.CULPRIT)]
    if needed(claims):
        lines.append(f"All of the following are needed to trigger it: {listed(needed(claims))}.")
    if not_needed(claims):
        lines.append(f"Not needed: {listed(not_needed(claims))}.")
    passing = [one.about for one in of(claims, Topic.VARIATION, ClaimKind.PASSES)]
    if passing:
        lines.append(f"Passes with {listed(passing)}.")
    return lines
