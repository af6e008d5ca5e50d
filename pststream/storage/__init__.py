"""Where the bytes of a home lie: a folder, or a prefix of a bucket, behind the same few functions."""
