"""Recorded runs of torchsleuth: everything that was learned from processes, kept so that it can be answered again.

`recorder` wraps the engines of this machine and keeps every answer; `replayer` answers from such a record and starts no
process.  `scenarios` lists the runs, `record` is the file format, `golden` is what a replay is compared with.
docs/notes/recorded-runs.md says why.
"""
