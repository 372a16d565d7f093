"""Switch off, one at a time, each thing that a Case has switched on beyond the default.

What the Case passes without is needed for it to fail; settings of the user's own among them are workarounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchsleuth.case.failure import Phase
from torchsleuth.case.model import Case, Tensor
from torchsleuth.locate import workarounds
from torchsleuth.locate.workarounds import Workaround


def switched_on(case: Case) -> Sequence[Workaround]:
    now = case.surroundings
    found = list(workarounds.left_out(case))
    if now.autocast:
        found.append(Workaround("autocast", _changed(autocast=())))
    if case.phase.backward:
        forward = Phase.COMPILE_FORWARD if case.phase.compiling else Phase.RUN_FORWARD
        found.append(Workaround("the backward", lambda c: replace(c, phase=forward)))
    if not case.phase.backward and any(isinstance(v, Tensor) and v.requires_grad for v in case.inputs):
        found.append(Workaround("requires_grad", _without_grad))
    if now.inference:
        found.append(Workaround("inference mode", _changed(inference=False, grad=False)))
    for name in now.environment:
        kept = {k: v for k, v in now.environment.items() if k != name}
        found.append(Workaround(f"{name} in the environment", _changed(environment=kept)))
    for name in now.switches:
        left = {k: v for k, v in now.switches.items() if k != name}
        found.append(Workaround(f"the switch {name}", _changed(switches=left)))
    return found


def _changed(**fields: object) -> workarounds.Change:
    def change(case: Case) -> Case:
        return replace(case, surroundings=replace(case.surroundings, **fields))  # type: ignore[arg-type]

    return change


def _without_grad(case: Case) -> Case:
    inputs = tuple(replace(v, requires_grad=False) if isinstance(v, Tensor) else v for v in case.inputs)
    return replace(case, inputs=inputs)
