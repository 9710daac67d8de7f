"""The folder of a run: the names and formats of its documents, one writer and one reader."""
