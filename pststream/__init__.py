"""PSTStream: match standing spatio-textual queries against a stream of objects, each match exactly once."""

__version__ = "0.1.0"
