"""Change plans: measure the balance, propose, apply, undo; compare planners; replay batches under another plan."""
