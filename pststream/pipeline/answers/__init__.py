"""Keep the answers of subscriptions with memory: fold the candidates of a micro-batch into the buckets of answers."""
