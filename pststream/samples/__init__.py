"""Samples of objects and subscriptions in the forms that planners and the load model use."""
