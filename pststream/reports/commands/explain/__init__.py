"""Explain pairs of an object and a subscription: matches, answers of the k best objects, and reports of terms."""
