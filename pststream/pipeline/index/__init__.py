"""Build and compact the worker index, which stores subscriptions at the workers that serve them."""
