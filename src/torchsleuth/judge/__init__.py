"""Judges: run a script in isolation, first eager, then compiled, and say what happened.

    with open_judge({"cpu"}, python=..., environment=judge_environment(os.environ), scratch=...) as judge:
        outcome = judge.judge(Trial(source, folder))
        if match(outcome, Target(failure)) is Match.SAME: ...

Every run of a script has its own process, session, caches, deadline and memory limit, and a warden that adopts and
kills whatever it starts.  `ForkedJudge` and `ForkedCudaJudge` fork trials from a warm process; `SpawnedJudge` keeps
warm ones in stock.
`verify` gives the final proof, in fresh interpreters where torchsleuth cannot be imported.
"""

from torchsleuth.judge.base import Judge
from torchsleuth.judge.choose import open_judge
from torchsleuth.judge.environment import judge_environment
from torchsleuth.judge.forked import ForkedJudge
from torchsleuth.judge.forked_cuda import ForkedCudaJudge
from torchsleuth.judge.match import Match, Target, match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.spawned import SpawnedJudge
from torchsleuth.judge.trial import Trial, deadline_for
from torchsleuth.judge.verify import Verification, verify

__all__ = [
    "ForkedCudaJudge",
    "ForkedJudge",
    "Judge",
    "Match",
    "Outcome",
    "SpawnedJudge",
    "Target",
    "Trial",
    "Verdict",
    "Verification",
    "deadline_for",
    "judge_environment",
    "match",
    "open_judge",
    "verify",
]
