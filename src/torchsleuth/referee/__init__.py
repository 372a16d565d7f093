"""The referee of numbers: is what compiled code gives wrong, or only rounded another way?

`values` flattens what a run shows; `upcast` runs eager in float64; `verdict` compares; `referee` decides when a
reference is needed and says what was found; `script` does it for a rendered script, `graph` for a graph in a program.

It stands between the rooms `case` and `watch`: the watched program and the judge's scripts are refereed by one piece of
code, so that what was found in the program is what the judge looks for.
"""
