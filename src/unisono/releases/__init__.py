"""What leaves a party, and what it costs: bounds, releases, prices, the types of algorithms.

Bounds prove sensitivities. They are a closed set: an algorithm, whoever wrote it, names one of them
and returns raw values, and only the bound turns these into a contribution.
"""
