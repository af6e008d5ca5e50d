"""Three hosts that share nothing but an object store."""
