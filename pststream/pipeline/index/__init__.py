"""The worker index: write subscriptions to the workers that serve them, compact its files."""
