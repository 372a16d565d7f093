"""A script that runs another and writes down what torch says of graph breaks and recompilations."""

from __future__ import annotations

BREAKS = "torch._dynamo.symbolic_convert.__graph_breaks"
RECOMPILES = "torch._dynamo.guards.__recompiles"

_SCRIPT = """\
import json, logging, os, runpy
os.environ.pop("TORCH_LOGS", None)
import torch

class Recorder(logging.Handler):
    def emit(self, record):
        with open({record!r}, "a", encoding="utf-8") as file:
            file.write(json.dumps([record.name, record.getMessage()]) + "\\n")

torch._logging.set_logs(graph_breaks=True, recompiles=True)
for name in ({breaks!r}, {recompiles!r}):
    logging.getLogger(name).addHandler(Recorder())
runpy.run_path({script!r}, run_name="__main__")
"""


def recorder(script: str, record: str) -> str:
    """Each line of the file `record` will be the JSON of [logger, message]."""
    return _SCRIPT.format(script=script, record=record, breaks=BREAKS, recompiles=RECOMPILES)
