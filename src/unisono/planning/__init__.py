"""Noise and usefulness of studies, predicted from public facts before anything is spent."""
