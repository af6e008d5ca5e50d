"""The main job: ingest, match and deliver what lands in a folder, once or continuously."""
