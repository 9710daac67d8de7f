"""A study between machines: the server's job, a party that joins, and all of it on one machine."""
