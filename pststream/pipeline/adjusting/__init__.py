"""Load adjustment: measure the balance, decide on a migration, propose, apply and undo it."""
