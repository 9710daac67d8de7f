"""What models ask algorithms to learn, and its mathematics: the joint between the two registries.

    LinearLoss        a convex loss of a linear score: gradients of single records in closed form
    RecordLoss        any loss of parameters and one record, traced (`per_record`)
    BayesianProblem   a likelihood and a prior (`bayesian`)
    BoundedColumns    rows of numbers within public bounds (`columns`)
    Survey            questions that one table of sums and counts answers (`algorithms.survey`)

An algorithm names the type that it needs, so compatibility follows by type. Every problem says what
parties `agreed` on when they agree on it, as plain JSON.
"""
