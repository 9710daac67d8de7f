"""A local web page of running and finished studies."""
