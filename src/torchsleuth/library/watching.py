"""`with torchsleuth.watching():` for notebooks, servers and tests: no command there to put a word in front of."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from torchsleuth.commands.conclusion import conclude
from torchsleuth.commands.interruption import Interruption
from torchsleuth.commands.output_folder import make_output_folder
from torchsleuth.commands.run import Run, Seen, Settings
from torchsleuth.watch.found import Found, summarise
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.ledger import Ledger
from torchsleuth.watch.observer import Observer
from torchsleuth.watch.session import Options, Outbox
from torchsleuth.write.result import Result


class watching:  # noqa: N801 - used as a function
    """Watches what torch.compile does inside the block.

        with torchsleuth.watching() as watch:
            compiled(x)                        # whatever it raises, it raises
        watch.failures                         # what failed, kept as Cases in watch.out
        watch.investigate()                    # judge, locate, write repro.py: takes a minute

    Nothing is judged inside the block, so a server can stay in one for long.
    """

    def __init__(self, out: str | Path | None = None, *, keep_going: bool = False) -> None:
        self._wanted = Path(out) if out is not None else None
        self._options = Options(keep_going=keep_going, hang_after=0)
        self._observer: Observer | None = None
        self._investigated: tuple[Found, ...] = ()
        self.out: Path = Path()

    def __enter__(self) -> watching:
        from torchsleuth.watch import guarded, hooks

        self.out = make_output_folder(self._wanted, ["python", "watching.py"])
        session = self.out / "logs" / "watch"
        session.mkdir(parents=True)
        guarded.log_to(session / "trouble.log")
        outbox = Outbox(session, self._options)
        outbox.hello()
        self._observer = hooks.install(outbox)
        self._previous = self._observer.report_to(Ledger(outbox))
        if self._previous.outbox is outbox:  # the hooks are new: nobody watched before
            self._previous.active = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._observer is not None:
            if error is not None:
                self._observer.note_end(error)
            self._observer.outbox.event("end")
            self._observer.report_to(self._previous)
            self._observer = None

    @property
    def failures(self) -> tuple[Found, ...]:
        return self._investigated or summarise(self.out / "logs" / "watch", None).found

    def investigate(self, *, jobs: int = 2) -> Result:
        """Judges what was kept and writes result.json, repro.py and issue.md into `out`."""
        from torchsleuth.write import terminal

        summary = summarise(self.out / "logs" / "watch", None)
        ended = Ended(1 if summary.found else 0, 0.0)
        settings = Settings(jobs=jobs, rerun=False)
        with terminal.progress() as say, Interruption(own_process=False) as interruption:
            result = conclude(Run.of(sys.argv, self.out, settings, say, interruption), Seen(summary, ended))
        # What the session held is gone by now; the Cases are in `out`.
        homes = [finding.case for finding in result.findings]
        self._investigated = tuple(replace(f, case=home) for f, home in zip(summary.found, homes, strict=False))
        return result
