"""The text of the results page that compares the results with PS2Stream, figure by figure."""

FIGURES_OF_PAPER = (
    ("figure", "what it shows", "benchmark here", "parameters that differ from the paper", "answer"),
    (
        "6",
        "throughput of the baselines, Q1 and Q2",
        "`paper-job`, `paper-job-uk`, `planners`; by Definition 1 `paper-model`",
        "500,000 subscriptions, not 5,000,000 and 10,000,000; synthetic objects or those of a file",
        "space wins on Q1 as in the paper, grid over frequency by about 4 (the paper: 2.09); on Q2 text wins by "
        "Definition 1 with AND and a large vocabulary alone, and nowhere in the real job",
    ),
    (
        "7",
        "throughput of hybrid, metric, kd-tree",
        "`paper-job`, `paper-job-uk`, `planners`, `planners-large`; by Definition 1 `paper-model`",
        "the same; `planners-large` has 5,000,000 and 10,000,000 subscriptions at a `frequent_share` of 0.3",
        "over `plain_kd_tree` about 1.25 on Q1, Q2 and Q3 in the USA, near the paper's 1.30 on Q3; 0.94 to 0.97 of "
        "`kd_tree`, which cuts by load; over `metric` 3.6",
    ),
    (
        "8",
        "latency of hybrid, metric, kd-tree",
        "`planner-latency`",
        "1,000,000 subscriptions; micro-batches; the seconds until matches can be read",
        "0.9 to 1.5 s under each, in no order of the planners: most of a batch does not depend on the plan",
    ),
    (
        "9",
        "memory of dispatchers",
        "`paper-job`, `dispatch_bytes`",
        "500,000 subscriptions; bytes of the arrays of the plan and of the filter of live terms, not of a process",
        "7 to 10 MB, the most for the planners that divide by text, as in the paper; `hybrid` as the kd-tree, except "
        "where it stores so many more subscriptions that the filter doubles",
    ),
    (
        "10",
        "memory of workers",
        "`paper-job`, `worker_bytes`",
        "500,000 subscriptions; bytes of the arrays of segments",
        "14 to 24 MB a worker; in the USA `hybrid` is 7% to 15% below `metric` and 9% to 12% above the kd-trees, in "
        "Britain it equals `kd_tree` and is above `metric`; the paper has it below both mostly",
    ),
    (
        "11",
        "throughput by workers",
        "`scalability`",
        "Q1 and Q3 in the USA, 4 to 32 workers, 500,000 subscriptions",
        "eight times the workers give `hybrid` 4.5 times the throughput on Q1 and 3.9 on Q3, `kd_tree` 5.2 and 5.0, "
        "`metric` 3.4 and 4.5; `metric` scales worst on Q1, as in the paper",
    ),
    (
        "12a, 13",
        "seconds to select cells",
        "`balance-methods-1m`, `-5m`, `-10m`; on generated cells `balance-select`",
        "some 270 blocks and 2,500 raster cells of the most loaded worker of a `plain_kd_tree`",
        "DP takes hundreds of times as long as GR, SI and RA, and none depends on the subscriptions, as in the paper",
    ),
    (
        "12b, 14",
        "cost and time of a migration",
        "`balance-methods-1m`, `-5m`, `-10m`; in the model `balance-cost`",
        "one migration a method, of a fifth of a worker's load, by the load model of this job",
        "GR moves 40% to 44% less than RA in 0.6 to 0.75 of its time, as in the paper; and within 13% as much as SI "
        "and DP, where the paper has 30% to 40% less than SI",
    ),
    (
        "12c, 15",
        "share of delayed tuples during a migration",
        "`balance-methods-1m`, `-5m`, `-10m`",
        "bounds of 2 s and 5 s, not 0.1 s and 1 s; objects that land within 15 s from the start of the migration",
        "under 2 s with GR 97%, 87% and 63% by size, with RA 87%, 77% and 43%, with SI as with GR; above 5 s at "
        "10,000,000 alone",
    ),
    (
        "16",
        "adjustment while the workload drifts",
        "`drift`",
        "250,000 subscriptions, not 10,000,000, at the paper's five objects a request; six intervals",
        "a gain of 6%, the paper: 26%; with even loads all the time it would be 16%",
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
four interleaved rounds. So 2% is less than the measurement can resolve. Ratios with a spread are medians over
seeds; those without are of one seed, and say no more than which planners are close. The `hybrid_over_best` of 1.6 on Q1
at 5,000,000 stands out, as the measured imbalance of the other planners is 2.4 there;
`bench run planners-large --workloads q1_5m --seed N` repeats it with another seed.

The total that the model predicts is 0.56 to 1.13 of the measured one, by workload, the least where `frequent_share` is
1. The tables of `paper-job` and `scalability` have the predicted imbalance beside the measured one, those of `planners`
and `planners-large` from their next run on. Where a plan is uneven, as that of `plain_kd_tree` in the USA, the model
predicts it (1.9 for 1.8); of plans that are even by the model, the measured imbalance is 1.03 to 1.3 in the USA and up
to 2.2 in Britain. A correlation over plans that all balance well means little: their workers hardly differ.

Objects of a file (`--objects`) may have more concentrated load than these. Earlier versions of this page gave ratios on
real places, measured by hand; they are left out until a run of `paper-job --objects` is published.

The same applies to adjustment. In `drift` the plan that is never adjusted loses at most `fixed_gain_if_even`, so the
paper's gain of 26% cannot be reached there: the drift changes the cost of a region too little. In `balance-cost` the
load of a cell is nearly proportional to its subscriptions, so GR has little to choose from; with the paper's own
load, pairs of objects and subscriptions, GR moves a fifth to a third less than SI and a fifth of what RA moves, as in
the paper. In the migrations of `balance-methods` SI moves as little as GR for one more reason: each method counts the
subscriptions of a block by themselves, and one over several blocks in each. SI takes a few large blocks, GR many small
ones that are cheap for their load, and their edges cost what their count does not show.
"""
