"""Process recorded micro-batches again under another plan, in a scratch home, and compare matches and loads."""
