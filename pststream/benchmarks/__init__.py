"""Named scenarios and the harness that runs them."""
