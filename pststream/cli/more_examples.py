"""List further examples of commands, which `--help` shows below the first one."""

MORE_EXAMPLES = {
    "plan": ("pststream plan --planner hybrid --option objective=sum --option sigma=1.2 --dry-run",),
    "balance": (
        "pststream balance local --method shift --dry-run --proposal move.npz --page move.html",
        "pststream balance local --apply --proposal move.npz",
        "pststream balance global --planner quadtree --dry-run",
    ),
    "export": (
        "pststream export answers --out answers.csv",
        "pststream export changes --since-batch 12 --out changes.jsonl",
    ),
    "answers": ("pststream answers --limit 100",),
    "ask": (
        "pststream ask --kind frequent_terms --bbox 18,59,19,60 -k 3 --home h",
        "pststream ask questions.jsonl --out answers.csv --home h",
    ),
    "plans": (
        "pststream plans compare --planners kd_tree,a_grid,dkm_sks --objects 200000",
        "pststream plans show",
    ),
    "generate": ("pststream generate requests --kind knn --count 1000 --objects posts.csv --out knn.jsonl",),
    "bench": ("pststream bench list",),
}
"""By the name of the command."""
