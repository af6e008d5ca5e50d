"""Split texts into words, hash words to term ids, and parse keyword expressions into conjunctive normal form."""
