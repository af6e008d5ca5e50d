"""Load adjustment: choose cells and terms to move between workers; map a new plan's workers to existing workers."""
