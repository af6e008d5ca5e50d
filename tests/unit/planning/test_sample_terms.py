"""The use of terms in a sample against counting."""

from hypothesis import given, settings

from pststream.planning.live_terms import collect_term_use
from pststream.plans.planner_sample import WorkloadSample
from tests.plans import samples, unpack


@settings(max_examples=60, deadline=None)
@given(samples())
def test_equals_counting(sample: WorkloadSample) -> None:
    use = collect_term_use(sample)
    assert use.ids.tolist() == sorted(set(sample.post_terms.tolist()))
    live = [[t for t in terms if t in set(use.ids.tolist())] for terms in unpack(sample.term_offsets, sample.terms)]
    assert [use.ids[terms].tolist() for terms in unpack(use.object_offsets, use.object_terms)] == live
    posted: dict[int, set[int]] = {}
    for key, terms in zip(sample.piece_key.tolist(), unpack(sample.post_offsets, sample.post_terms)):
        posted.setdefault(key, set()).update(terms)
    terms_of_subscriptions = [
        use.ids[terms].tolist() for terms in unpack(use.subscription_offsets, use.subscription_terms)
    ]
    assert terms_of_subscriptions == [sorted(posted[key]) for key in sorted(posted)]
    assert use.objects.tolist() == [sum(t in terms for terms in live) for t in use.ids.tolist()]
    read = dict.fromkeys(use.ids.tolist(), 0)
    for term, count in zip(sample.terms.tolist(), sample.reads.tolist()):
        if term in read:
            read[term] += count
    assert use.reads.tolist() == list(read.values())
    assert use.subscriptions.tolist() == [sum(t in terms for terms in posted.values()) for t in use.ids.tolist()]
