"""Generated objects and subscriptions, by seed, and the data of the demo."""
