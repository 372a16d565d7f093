"""How a running program becomes Cases.

The launcher runs the user's command with TORCHSLEUTH_WATCH set; torch loads our entry point in every process that
imports it; `begin` says hello and hooks the places where graphs compile and run; `capture` turns a failing graph into a
Case at that moment.  Nothing here may change what the program computes, prints or raises: whatever goes wrong in a hook
is logged by `guarded` and forgotten.
"""
