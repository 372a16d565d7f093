"""One graph with all that is needed to run it alone.

`graph_text` prints an FX graph as Python that a person can read and parses it back without running it; `tensors` keeps
inputs by storage; `surroundings` is what else the compilation depended on; `folder` puts a Case on disk; `program`
renders a Case as the torch-only script that is judged and, in the end, given to the user.
"""
