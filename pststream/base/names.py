"""Define names that DAGs, jobs and the package share (tables, planners, storages, special values); imports nothing."""

PLANNERS = {
    "hybrid": "pststream.planning.planners.hybrid",
    "grid": "pststream.planning.planners.grid",
    "kd_tree": "pststream.planning.planners.kd_tree",
    "plain_kd_tree": "pststream.planning.planners.plain_kd_tree",
    "r_tree": "pststream.planning.planners.r_tree",
    "frequency": "pststream.planning.planners.frequency",
    "hypergraph": "pststream.planning.planners.hypergraph",
    "metric": "pststream.planning.planners.metric",
    "a_grid": "pststream.planning.papers.a_grid",
    "uniform": "pststream.planning.papers.uniform",
    "keyword_hash": "pststream.planning.papers.keyword_hash",
    "quadtree": "pststream.planning.papers.quadtree",
    "text": "pststream.planning.papers.text",
    "qt_tree": "pststream.planning.papers.qt_tree",
    "keyword_oriented": "pststream.planning.papers.keyword_oriented",
    "space_oriented": "pststream.planning.papers.space_oriented",
    "dkm_sks": "pststream.planning.papers.dkm_sks",
    "hash": "pststream.planning.papers.region_hash",
    "location": "pststream.planning.papers.region_location",
    "auto": "pststream.planning.planners.auto",
}
"""The module of each planner, by the planner's name. To add a planner, write its module and add a line here.

`planning/planners/registry.py` imports a module when its planner is first used, so this list loads nothing.
"""

AUTO = "auto"
"""The planner that chooses among the others; the default."""

FIRST_PLANNER = "kd_tree"
"""The planner in the place of `auto` of the plan that the first batch makes."""

BY_BUCKET = "hash"
"""The planner of `topk` that finds candidates by answer bucket; no row of `topk_plans` is of it."""

TOPK_PLANNERS = (BY_BUCKET, "location", "keyword", "prefix", "spatial_first", "keyword_first")
"""Planners of `topk` subscriptions, which have a plan of their own; `planning/papers/topk_planners.py` makes it."""

REGION_KINDS, TOPK_KINDS = "range,knn", "topk"
"""The kinds that each of the two plans of a home serves, for the option `--kinds`."""

PLANNERS_OF = {REGION_KINDS: PLANNERS, TOPK_KINDS: TOPK_PLANNERS}
"""The planners of each plan, by the kinds that it serves."""


def kinds_served(planner: str | None) -> str:
    """Return the kinds whose plan a planner makes: of `hash` and `location`, which make both, those of `topk`.

    Those of regions for None, the planner of the setting.
    """
    return TOPK_KINDS if planner in TOPK_PLANNERS else REGION_KINDS


BALANCERS = {
    "gr": "pststream.planning.balancing.local_adjustment",
    "dp": "pststream.planning.balancing.local_adjustment",
    "si": "pststream.planning.balancing.local_adjustment",
    "ra": "pststream.planning.balancing.local_adjustment",
    "shift": "pststream.planning.balancing.shift",
    "pm": "pststream.planning.balancing.reallocate",
    "fm": "pststream.planning.balancing.reallocate",
    "pm_fm": "pststream.planning.balancing.reallocate",
    "fg": "pststream.planning.balancing.reallocate",
    "pm_fm_fg": "pststream.planning.balancing.reallocate",
}
"""The module of each method of `balance local`. To add one, write its module and add a line here."""

QUESTION_KINDS = ("range", "knn", "topk", "frequent_terms")
"""Kinds of question for the form of a DAG; `queries/kinds/registry.py` lists them."""

SQL_DIALECTS = ("spark", "duckdb", "trino")
"""Programs in whose SQL the views of a home are written; `reports/views.py` declares the dialects."""

OBJECTS = "objects"
REJECTS = "rejects"
REQUESTS = "requests"
FILES = "files"
VOCABULARY = "vocabulary"
PLANS = "plans"
PLAN_UNITS = "plan_units"
PLAN_NODES = "plan_nodes"
PLACEMENT_COUNTS = "placement_counts"
PLACEMENTS = "placements"
PLACEMENT_AREAS = "placement_areas"
TOPK_PLANS = "topk_plans"
WORKER_INDEX = "worker_index"
UNIT_LOADS = "unit_loads"
MATCHES = "matches"
BATCHES = "batches"
MIGRATIONS = "migrations"
QUARANTINE = "quarantine"
QUALITY_RESULTS = "quality_results"
DELIVERIES = "deliveries"
DEAD_LETTERS = "dead_letters"
ERASURES = "erasures"
REMOVALS = "erase"
"""The application of the transaction ids of removals, in the Delta logs of the tables that lose rows."""
WITHDRAWALS = "withdrawals"
TERM_STATISTICS = "term_statistics"
QUESTION_FILES = "question_files"
QUESTION_ANSWERS = "question_answers"
QUESTIONS = "questions"
ANSWER_LOG = "answer_log"
ANSWERS = "answers"

ERASABLE = (
    QUESTION_ANSWERS, ANSWER_LOG, DELIVERIES, DEAD_LETTERS, MATCHES, WORKER_INDEX, VOCABULARY, QUALITY_RESULTS,
    QUARANTINE, REJECTS, REQUESTS, OBJECTS,
)  # fmt: skip
"""Tables that `erase` removes rows from, in this order: what was derived before what it was derived from."""

KEEPABLE = (ANSWER_LOG, QUESTION_ANSWERS, QUESTIONS, MATCHES, DEAD_LETTERS, REJECTS, OBJECTS)
"""Tables whose rows `maintain` removes when they are older than the setting `keep` says, in this order."""

HOME_MARK = "home.json"
"""File that makes a folder a home. It names the format and the tokenizer, and is written last."""

GOLD, PAIRS = "gold", "pairs"
"""Folder of a home for tables that Spark makes of the others, and its table: the pairs. PAIRS is also the application
of its transaction ids, which are batches.
"""

NEVER, AFTER_RUNS, HOURLY = "never", "run", "hourly"
"""When the gold table is updated: the values of the setting `pairs_table`."""

DELTA_LOG = "_delta_log"
"""Folder of the log of a Delta table, in the folder of the table."""

HEARTBEAT = "watch.json"
"""File of a home that a watcher writes its state to."""

UP_STATES = ("ok", "behind")
"""States of a sink that needs no attention."""

OUTCOMES = "outcomes"
"""Folder of a home for the outcomes of jobs whose drivers run on a cluster."""

EVERY_OBJECT = 0x45564552594F424A
"""The term id of the clause of subscriptions without keywords; in matching, every object has it."""

EVERY_WORKER = -1
"""The worker partition whose rows every worker reads (deletions)."""

WHOLE_WORKER = -1
"""The unit of the rows of `unit_loads` that have the total of a worker."""

UNIT_OF_TOPK = -1
"""The worker of the rows of `unit_loads` that are of units of the plan of `topk`."""

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
"""Bounds below and above every key, number of rows and time."""

MAX_FILE_TERMS = 1 << 30
"""Terms of the objects in a data file, and in the data files of a segment, at most: a segment numbers its terms by 31
bits. A file ends with the rows that exceed this."""

NO_TIME = MIN_INT64
"""Before every time, in microseconds since 1970: the time of what has none, the start of a range without one."""

NEVER_US = MAX_INT64
"""After every time, in microseconds since 1970: the end of validity of what never ends."""

STORAGES = {"s3://": "pststream.storage.s3"}
"""The module of each storage, by the prefix of its addresses; any other address is a local path.

To add a storage, write its module and add a line here; `storage/registry.py` imports a module when it is first used.
"""

OTHER_PREFIXES = {"s3a://": "s3://"}
"""Other spellings of prefixes of STORAGES: `s3a` is Hadoop's."""


def storage_prefix(address: str) -> str:
    """Return the prefix of STORAGES that an address begins with, or begins with in another spelling; empty if local."""
    prefix = next((known for known in (*STORAGES, *OTHER_PREFIXES) if address.startswith(known)), "")
    return OTHER_PREFIXES.get(prefix, prefix)


ROW_BITS = 32
"""A key is (file sequence << ROW_BITS) | row in the file: the position in the log."""

MAX_JSON_LEVELS = 32
"""How many lists and objects may be open at once in JSON that others wrote, the outermost included."""

SPARK_POOL = "pststream_spark"
SPARK_CONNECTION = "pststream_spark"
SINK_VARIABLES = "PSTSTREAM_SINK_"
"""How the environment variables of sinks begin; `<NAME>_<KEY>` follows."""

SINK_CONNECTIONS = "pststream_sink_"
"""How the id of the Airflow connection of one sink begins; the name of the sink follows."""

DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Configuration of Spark for Delta's SQL; only with its jars, without which no SQL runs under it."""

SPARK_CONF_VARIABLE = "PSTSTREAM_SPARK_CONF"
"""Environment variable of a job that a DAG runs without spark-submit: Spark's configuration for it, as JSON."""
