"""PSTStream: standing spatio-textual questions over a stream, matched exactly once."""

__version__ = "0.1.0"
