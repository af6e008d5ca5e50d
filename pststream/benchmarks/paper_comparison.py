"""The text of the results page that compares the results with PS2Stream, figure by figure."""

FIGURES_OF_PAPER = (
    (
        "figure",
        "what it shows",
        "benchmark here",
        "parameters that differ from the paper",
        "answer",
    ),
    (
        "6",
        "throughput of the baselines, Q1 and Q2",
        "`planners`; by Definition 1 `paper-model`",
        "1,000,000 subscriptions, not 5,000,000 and 10,000,000; `frequent_share` 0.3 unless the workload is "
        "`_paper`; synthetic objects",
        "space wins on Q1, as in the paper; on Q2 text wins by Definition 1 with AND and a large vocabulary "
        "alone, and nowhere in the real job",
    ),
    (
        "7",
        "throughput of hybrid, metric, kd-tree",
        "`planners`, `planners-large`; by Definition 1 `paper-model`",
        "the same",
        "the paper's order and about its ratios by Definition 1 against `plain_kd_tree`; not in the real job",
    ),
    (
        "8",
        "latency of hybrid, metric, kd-tree",
        "`planner-latency`",
        "1,000,000 subscriptions; micro-batches",
        "no figures on this page yet",
    ),
    (
        "9",
        "memory of dispatchers",
        "`planners`, `dispatch_bytes`",
        "bytes of the arrays, not of a process; with the filter of live terms from the next run on",
        "5 to 7 MB, the most for the planners that divide by text, as in the paper; `hybrid` equals the kd-"
        "tree where it divides by space alone",
    ),
    (
        "10",
        "memory of workers",
        "`planners`, `worker_bytes`, `subscriptions_stored`",
        "bytes of the arrays of segments, from the next run on",
        "by subscriptions stored: `hybrid` at or below the others on Q1 and Q2, above the kd-tree on Q3",
    ),
    (
        "11",
        "throughput by workers",
        "`scalability`",
        "Q3 alone, 4 to 32 workers; `metric` from the next run on",
        "hybrid and the kd-tree scale alike",
    ),
    (
        "12a, 13",
        "seconds to select cells",
        "`balance-select`",
        "generated cells, 1,000 to 1,000,000",
        "GR, SI and RA depend on the cells alone; DP is two orders slower, as in the paper",
    ),
    (
        "12b, 14",
        "cost and time of a migration",
        "`balance-cost`, `migration`",
        "the cells of a kd-tree in the model at 1,000,000 subscriptions; time for GR's rule alone at 5,000,000",
        "with the paper's load (pairs) GR moves 18% to 31% less than SI, the paper: 30% to 40%; with the load "
        "of this job 4% to 9%",
    ),
    (
        "12c, 15",
        "share of delayed tuples during a migration",
        "none",
        "a batch waits for the migration, so all of its objects are delayed alike; `migration` has the batch "
        "before and after",
        "not measured by method",
    ),
    (
        "16",
        "adjustment while the workload drifts",
        "`drift`",
        "500,000 subscriptions, not 10,000,000, and 2.5 objects a request; 250,000 and five from the next run on",
        "a gain of 2%, the paper: 26%",
    ),
)
"""Titles, then figure of the paper, what it shows, benchmark, parameters that differ, answer."""

HEAD = """\
## Comparison with the paper

PS2Stream (section VI) ran on 32 machines, 8 of them workers, over tweets, and reports tuples/s of the whole cluster.
Here 8 logical workers share 2 cores and synthetic objects; *throughput* of `planners` is the throughput of 8 such
workers together: tuples over the CPU seconds of the slowest. The order of the planners on a workload and their ratios
can be compared; absolute figures cannot. The paper's grid baseline reached 160,659 tuples/s with 8 workers on Q1;
`end-to-end` gives the figures of the whole job here, Delta in and Delta out, on 2 cores.

### Figures of the paper
"""

REASONS = """\
### Why it is not as in the paper

`paper-model` judges every planner by Definition 1 alone, on the paper's keywords, over five seeds. The model alone
gives the paper's ratios where connective, vocabulary and baseline are as below; the real job does not. There are four
causes. All ratios are of greatest loads, medians over the seeds; the tables of `paper-model` have the spread.

1. **The index.** In the paper a worker checks an object against the subscriptions in the lists of its cell, so its load
   is a product (Definition 1, c1), and the planner that lowers the product wins. Here the index of a worker is sorted
   by (cell, term), and an object reads only the lists of its own terms in its own cell. `calibrate` finds that c1 is
   almost zero, and that the load of a worker is the sum of a cost per object, per posting read, per match and per
   subscription. So text planners, which send an object to three workers, lose on every workload of the real job. Space
   planners also drop objects without a matching subscription here, which in the paper only text planners do.
2. **The connective.** The paper joins keywords by AND or OR and does not say in which share. A subscription with OR is
   posted under all of its keywords, the frequent ones too. With OR, or with both at random, `hybrid` divides by space
   and is 0.99 to 1.04 of the best other planner, at every vocabulary. With AND alone a subscription is posted under its
   rarest keyword, and dividing by text pays.
3. **The vocabulary.** With AND, `hybrid` over the best other planner grows with the words: on Q2 1.06, 1.70 and 1.80
   with 50,000, 200,000 and 3,000,000 words, on Q3 1.00, 1.05 and **1.47** (1.30 to 1.58). So the paper's 1.30 on Q3 is
   there, with many words and AND. Text beats space on Q2 with AND and 3,000,000 words alone, by 1.24 (the paper: 1.47);
   on Q1 space beats text by 2.5 to 5.4 (the paper: 2.1).
4. **The baseline.** `kd_tree` cuts by load here, and with OR `hybrid` is no better than it. Over `plain_kd_tree`, which
   cuts at medians, `hybrid` reaches 1.19 to 1.36 on Q1, 1.27 to 2.95 on Q2 and 1.26 to 1.87 on Q3; in Britain 1.30,
   1.46 and 1.41. The paper has slightly above 1, above 1, and 1.30, and does not say how its kd-tree cuts.

Over `metric`, `hybrid` reaches 2.8 to 5.3 on Q1, 1.8 to 4.9 on Q2 and 3.0 to 5.2 on Q3, where the paper has much above
1, about 1 and 1.30: text planners do worse here than in the paper, as each object has nine words, most of them live.

Algorithm 1 as written (`hybrid_sum`) is 1.36 to 2.05 of the best other planner on Q2 with AND and 200,000 words or
more and on Q3 with AND and 3,000,000, and 0.78 to 1.03 elsewhere. It beats the default objective on Q2 with AND and
3,000,000 words alone. Its sum is not the least either: with AND it is above that of the default objective by 0.2% to
20%, except there, as phase two cuts one node after the other. The least greatest load is not a balanced one: by
Definition 1 the median imbalance of `hybrid` is within its sigma of 1.1 in 7 of 30 cases, and `plan` says where it is
not.

### What the measurements can resolve

Two runs of `planners-large` on one machine differ by up to a tenth in these ratios, although each takes the least of
four interleaved rounds: the run before this one gave `hybrid` 0.994 of the best other planner on Q1 and 1.143 on Q3 at
10,000,000. So 2% is less than the measurement can resolve, and each ratio of the real job here is of one seed. The
`hybrid_over_best` of 1.6 on Q1 at 5,000,000 stands out: there the measured imbalance of the other planners is 2.4. It
has not been repeated with other seeds. The total that the model predicts is 0.81 to 1.13 of the measured one, by
workload, and the measured imbalance is 1.04 to 1.54 in `planners` and up to 2.4 in `planners-large`; the next run also
shows the predicted imbalance (`model_imbalance`). An earlier version of this page put the error of the model at 3%
to 5%; these figures do not carry that. A correlation over plans that all balance well means little: their workers
hardly differ.

Where load is concentrated, `hybrid` gains. On real places (295,969 businesses of the USA from SimpleGeo, with holes
in the map, one word in 59% of the rows; not shipped, measured by hand with the functions of `planners-large`, at a
`frequent_share` of 0.05, 8 workers, the least of three rounds) it reaches **1.16** of the best other planner on Q1 at
10,000,000 subscriptions, **1.10** on Q2 and **1.11** on Q3, at some 850 matches per object; at 5,000,000, with the
previous constants of the model, 1.27 on Q1, 1.02 on Q2 and 0.98 on Q3.

The same applies to adjustment. In `drift` the plan that is never adjusted loses at most `fixed_gain_if_even`, so the
paper's gain of 26% cannot be reached there: the drift changes the cost of a region too little. In `balance-cost` the
load of a cell is nearly proportional to its subscriptions, so GR has little to choose from; with the paper's own
load, pairs of objects and subscriptions, GR moves a fifth to a third less than SI and a fifth of what RA moves, as in
the paper.
"""
