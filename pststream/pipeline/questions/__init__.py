"""Answer the files of questions of a landing folder, each once."""
