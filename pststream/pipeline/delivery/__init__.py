"""Delivery: build the messages of finished batches and send them to the sinks."""
