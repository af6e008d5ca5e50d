"""From a plan to the workers of an object or a subscription."""
