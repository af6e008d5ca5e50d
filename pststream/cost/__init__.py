"""The load model (PS2Stream, Definition 1): the load of workers, regions, blocks and cells."""
