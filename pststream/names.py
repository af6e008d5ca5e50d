"""Names that DAGs, jobs and the package share; loads nothing."""

PLANNERS = ("hybrid", "grid", "kd_tree", "r_tree", "frequency", "hypergraph", "metric")
MAPPINGS = ("hungarian", "greedy")
"""How the parts of a new partitioning are given to workers; the others of balancing/worker_mapping.py are to compare
with."""

OBJECTS = "objects"
REJECTS = "rejects"
REQUESTS = "requests"
FILES = "files"
VOCABULARY = "vocabulary"
PLANS = "plans"
PLAN_UNITS = "plan_units"
WORKER_INDEX = "worker_index"
UNIT_LOADS = "unit_loads"
MATCHES = "matches"
BATCHES = "batches"
MIGRATIONS = "migrations"
QUARANTINE = "quarantine"
QUALITY_RESULTS = "quality_results"
DELIVERIES = "deliveries"
DEAD_LETTERS = "dead_letters"

HEARTBEAT = "watch.json"
"""File of a home in which a watcher tells how it is."""

ALL_TERMS = -1
"""Stands where a leaf is not partitioned by text."""

EVERY_WORKER = -1
"""The worker partition whose rows every worker reads (deletions)."""

NEVER_US = 2**63 - 1
"""End of validity, in microseconds since 1970, of what never ends."""

BUCKETS = "s3://"
"""How the address of something in a bucket begins."""

IN_BUCKETS = (BUCKETS, "s3a://")
"""How it may be given: `s3a` is Hadoop's name for the same."""

ROW_BITS = 32
"""A key is (file sequence << ROW_BITS) | row in the file: the position in the log."""

SPARK_POOL = "pststream_spark"
SPARK_CONNECTION = "pststream_spark"
SINKS_CONNECTION = "pststream_sinks"
MATCHES_ASSET = "pststream://matches"
PLANS_ASSET = "pststream://plans"
IMBALANCE_ASSET = "pststream://imbalance"
