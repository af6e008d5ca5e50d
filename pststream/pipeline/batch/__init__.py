"""Run micro-batches: route the objects of a key range, match them, retract, commit the matches."""
