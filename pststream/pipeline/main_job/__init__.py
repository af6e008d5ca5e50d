"""The main job: ingest what lands in a folder, match, deliver and answer, once or continuously."""
