"""Declare the columns of `requests` that store the fields of subscriptions with memory; kinds share them."""

import pyarrow as pa

from pststream.kinds.contract import RequestColumn

LON = RequestColumn("lon", pa.float64(), "insert: longitude of the point, degrees")
LAT = RequestColumn("lat", pa.float64(), "insert: latitude of the point, degrees")
K = RequestColumn("k", pa.int64(), "insert: greatest number of rows of an answer")
ALPHA = RequestColumn("alpha", pa.float64(), "insert: weight of the distance in a score, 0 to 1")
DISTANCE_SCALE = RequestColumn(
    "distance_scale_m", pa.float64(), "insert: metres at which the distance adds nothing to a score"
)
WINDOW_US = RequestColumn("window_us", pa.int64(), "insert: length of a time window, microseconds")
WINDOW_OBJECTS = RequestColumn("window_objects", pa.int64(), "insert: length of a window in objects")
STEP_US = RequestColumn("step_us", pa.int64(), "insert: time between two reports, microseconds")
