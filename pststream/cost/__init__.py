"""The load model (PS2Stream, Definition 1): estimate loads of workers, regions, blocks and cells from a sample."""
