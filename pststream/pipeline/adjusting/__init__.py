"""Adjust the load of workers: measure the balance, decide on a migration, propose, apply and undo it."""
