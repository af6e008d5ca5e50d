"""Partition `topk` subscriptions as DSkype does (Skype, sections 7.3 and 8.2)."""
