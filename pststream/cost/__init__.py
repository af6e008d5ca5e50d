"""The load model (PS2Stream, Definition 1): loads of workers, regions, blocks and raster cells."""
