"""Write and read the state of a home: tables and data files, plans, quarantine, deliveries, locks, upgrades."""
