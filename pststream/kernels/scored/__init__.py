"""The index of `topk` subscriptions: which of them a message may enter, by place and text."""
