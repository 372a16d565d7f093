"""Record the runs of tests/replays again, or only compare and renew what they are compared with.

    python tools/record_replays.py [NAME...]           record these runs again (all of them: half an hour)
    python tools/record_replays.py --golden [NAME...]  replay, show the difference, and accept it: seconds, no torch
    python tools/record_replays.py --list              name the runs

A recording runs the real program and real judges, one at a time, with a clock that stands still.  It is replayed at
once and refused where the replay does not give the same result, where the run was cut short, or where a path of this
machine is left in it.  docs/notes/recorded-runs.md says why and when.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from replaying import golden, record
from replaying.places import Places
from replaying.recorder import RecordingEngines
from replaying.replayer import NotOnRecord, ReplayEngines
from replaying.scenarios import SCENARIOS, Scenario, named, run
from torchsleuth.judge.engines import LOCAL


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--golden", action="store_true", help="replay only, and accept the difference")
    parser.add_argument("--list", action="store_true", help="name the runs")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # record in this process
    arguments = parser.parse_args()
    known = {one.name: one for one in SCENARIOS}
    unknown = set(arguments.names) - set(known)
    if unknown:
        parser.error(f"no such run: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [named(name) for name in arguments.names] or list(SCENARIOS)
    if arguments.list:
        print("\n".join(f"{one.name:24} {one.what}" for one in chosen))
        return 0
    if arguments.golden:
        return max(accept(one) for one in chosen)
    if arguments.here:
        return record_here(chosen[0])
    return max(record_apart(one) for one in chosen)


def record_apart(scenario: Scenario) -> int:
    """Each in a process of its own: what one run leaves in memory must not reach the next."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, __file__, "--here", scenario.name], stdin=subprocess.DEVNULL, check=False)
    print(
        f"{scenario.name}: {'recorded' if done.returncode == 0 else 'NOT recorded'}, {time.monotonic() - began:.0f} s"
    )
    return done.returncode


def record_here(scenario: Scenario) -> int:
    root = Path(tempfile.mkdtemp(prefix="torchsleuth-record-")).resolve()
    try:
        places = Places.recorded_on(root)
        engines = RecordingEngines(LOCAL, places)
        told = _Told()
        found = run(scenario, engines, root, places, told)
        path = root / record.NAME
        record.write(path, engines.answers)
        faults = [*record.faults(path), *_cut_short(found), *_replayed_otherwise(scenario, path, found)]
        if faults:
            print(f"{scenario.name}: not recorded: " + "\n".join(faults), file=sys.stderr)
            return 1
        scenario.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, scenario.folder / record.NAME)
        golden.write(scenario.folder, found)
        print(f"{scenario.name}: {len(engines.answers)} answers, {path.stat().st_size:,} bytes")
        return 0
    finally:
        shutil.rmtree(root, ignore_errors=True)


def accept(scenario: Scenario) -> int:
    """Replay, print the difference, and make what is found the golden result."""
    try:
        found = _replay(scenario, scenario.folder / record.NAME)
    except NotOnRecord as error:
        print(f"{scenario.name}: record it again: {error}", file=sys.stderr)
        return 1
    print(golden.difference(golden.read(scenario.folder), found) or f"{scenario.name}: no difference")
    golden.write(scenario.folder, found)
    return 0


def _cut_short(found: dict[str, str]) -> list[str]:
    cut = any(word in text for text in found.values() for word in ("the budget", "stopped by"))
    return ["the run was cut short: give its scenario a larger budget"] if cut else []


def _replayed_otherwise(scenario: Scenario, path: Path, found: dict[str, str]) -> list[str]:
    try:
        difference = golden.difference(found, _replay(scenario, path))
    except NotOnRecord as error:
        return [f"its replay goes another way: {error}"]
    return [f"its replay gives another result:\n{difference}"] if difference else []


def _replay(scenario: Scenario, path: Path) -> dict[str, str]:
    root = Path(tempfile.mkdtemp(prefix="torchsleuth-replay-")).resolve()
    try:
        places = Places.replayed_in(root)
        return run(scenario, ReplayEngines(record.read(path), places), root, places, [])
    finally:
        shutil.rmtree(root, ignore_errors=True)


class _Told(list[str]):
    """Lines of progress, printed as they come."""

    def append(self, text: str) -> None:
        print(f"  {text}", file=sys.stderr, flush=True)
        super().append(text)


if __name__ == "__main__":
    sys.exit(main())
