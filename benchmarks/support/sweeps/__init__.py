"""The sweeps of the papers of planners, and the ratios that these papers report."""
