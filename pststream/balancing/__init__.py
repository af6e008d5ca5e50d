"""Load adjustment: which cells move from which worker to which, and what that costs (PS2Stream section V)."""
