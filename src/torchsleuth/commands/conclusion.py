"""From what was seen to what is said: investigated, judged, written.

The result comes first and is written in any case; a page that a fault of our own spoils is left out, and that is noted.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torchsleuth import __version__
from torchsleuth.case import files
from torchsleuth.commands import going_on
from torchsleuth.commands.one_by_one import LookedInto, looked_into
from torchsleuth.commands.run import Run, Seen
from torchsleuth.commands.verdict import notes_of, verdict_of, why
from torchsleuth.investigate.investigation import write_issue
from torchsleuth.investigate.own_faults import LOG
from torchsleuth.watch.session import processes
from torchsleuth.write.findings import Finding
from torchsleuth.write.page_run import run_page
from torchsleuth.write.result import Result, to_json


def conclude(run: Run, seen: Seen) -> Result:
    looked = looked_into(run, seen) if seen.summary.found else LookedInto()
    verdict, findings = verdict_of(seen, looked.findings), looked.findings
    noted = (*notes_of(seen), *looked.notes)
    last = tuple(why(verdict, seen, findings))
    result = Result(
        __version__, _torch_version(findings, run.session), run.command, seen.ended.exit_code, verdict,
        seen.summary.processes, seen.summary.graphs, seen.summary.checked, (*noted, *run.faults.notes, *last), findings,
    )  # fmt: skip
    files.write_json(run.out / "result.json", to_json(result, run.out))
    if findings:
        run.faults.keep(None, "writing issue.md", lambda: write_issue(findings[0], run.out))
    run.faults.keep(None, "writing report.html", lambda: _write_report(result, run.out))
    run.faults.keep(None, "clearing away what the program told", lambda: _tidy(run))
    told = replace(result, notes=(*noted, *run.faults.notes, *last))
    if told != result:
        files.write_json(run.out / "result.json", to_json(told, run.out))
    if not run.interruption.stopped.is_set():
        going_on.end(run.out, [finding.repro.path for finding in findings if finding.repro is not None])
    return told


def _write_report(result: Result, out: Path) -> None:
    files.write_text(out / "report.html", run_page(to_json(result, out), out))


def _torch_version(findings: Sequence[Finding], session: Path) -> str:
    for finding in findings:
        if finding.versions.get("torch"):
            return finding.versions["torch"]
    for process in processes(session):
        if process.hello.get("torch"):
            return str(process.hello["torch"])
    return "unknown"


def _tidy(run: Run) -> None:
    """Keeps the log of our own troubles; the traffic between tool and program has served."""
    trouble = run.session / "trouble.log"
    if trouble.exists():
        with (run.out / LOG).open("ab") as log:
            log.write(trouble.read_bytes())
    shutil.rmtree(run.session, ignore_errors=True)
