"""What is learnt: one file per model, which says everything about it.

A model says how one record becomes a row, which problem it poses, and how a result is read, shown
and scored. How it is learnt privately is an algorithm's matter: any that solves the problem.
"""
