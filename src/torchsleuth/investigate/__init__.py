"""From what was kept in the program to a verified repro: the rooms before this one, put to work on one failure."""
