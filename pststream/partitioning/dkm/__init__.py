"""The planners of the paper on DkM-SKS, which share by subscription (`partitioning/by_subscription.py`)."""
