"""Planners of DkM-SKS, Skype, SSTD and Tornado, and what only these planners need."""
