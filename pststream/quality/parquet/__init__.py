"""Decode Parquet files in batches that do not fill the memory."""
