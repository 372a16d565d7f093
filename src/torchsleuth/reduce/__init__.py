"""From a faithful Case to the smallest program that fails in the same way.

`facts` says what every value of the graph looks like; `edit` makes a smaller Case from a description of what to keep;
`search` decides which subsets to test; each file in `passes/` proposes one kind of simplification; `oracle` asks the
Judge, remembers what it said, and keeps the best so far.
"""
