"""Array kernels: numba, arrays in, arrays out; no Spark, no files."""
