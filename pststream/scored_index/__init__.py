"""Keep the index of the `topk` subscriptions of a bucket, and find which of them each message of a batch may enter."""
