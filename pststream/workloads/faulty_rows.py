"""Fixed objects and requests with deliberate errors, added to the demo's files so that the demo shows rejects."""

BAD_OBJECTS = (
    {"object_id": "bad-latitude", "ts": "2026-03-01T10:00:00Z", "lon": "9.1", "lat": "91.5", "text": "coffee"},
    {"object_id": "bad-longitude", "ts": "2026-03-01T10:00:01Z", "lon": "-200", "lat": "38.7", "text": "lost wallet"},
    {"object_id": "bad-nan", "ts": "2026-03-01T10:00:02Z", "lon": "NaN", "lat": "38.7", "text": "jazz tonight"},
    {"object_id": "bad-blank", "ts": "2026-03-01T10:00:03Z", "lon": "", "lat": "", "text": "where am I"},
    {"object_id": "bad-time", "ts": "yesterday at noon", "lon": "9.1", "lat": "45.5", "text": "train delayed"},
    {"object_id": "bad-comma", "ts": "2026-03-01T10:00:04Z", "lon": "9,1", "lat": "45,5", "text": "decimal commas"},
    {"object_id": "", "ts": "2026-03-01T10:00:05Z", "lon": "9.1", "lat": "45.5", "text": "no id"},
    {
        "object_id": "bad-markup",
        "ts": "<script>alert('ts')</script>",
        "lon": "9.1",
        "lat": "45.5",
        "text": "a page must not run this",
    },
)

HOSTILE_OBJECTS = (
    {
        "object_id": "odd-markup",
        "ts": "2026-03-01T11:30:00Z",
        "lon": "-9.1393",
        "lat": "38.7223",
        "text": "<script>alert('text')</script> free coffee & \"cake\" in Lisbon",
    },
)
"""Valid objects whose text is markup, which a page must escape."""

LATE_TIMES = ("2026-02-27T08:00:00Z", "2026-02-27T09:30:00Z", "2026-02-26T23:59:59Z", "2025-12-31T12:00:00Z")

BAD_REQUESTS = (
    {"op": "insert", "subscription_id": "bad-expression", "keywords": "coffee AND (free OR", "bbox": [-10, 38, -9, 39]},
    {"op": "insert", "subscription_id": "bad-box", "keywords": "coffee", "bbox": [-10, 40, -9, 39]},
    {"op": "insert", "subscription_id": "bad-region", "keywords": "coffee"},
    {"op": "insert", "subscription_id": "bad-words", "keywords": "!!! ???", "bbox": [-10, 38, -9, 39]},
    {"op": "insert", "subscription_id": "coffee-lisbon", "keywords": "tea", "bbox": [-10, 38, -9, 39]},
    {"op": "delete", "subscription_id": "never-registered", "at": "2026-03-01T08:00:00Z"},
    {"op": "update", "subscription_id": "coffee-lisbon", "keywords": "tea"},
)
