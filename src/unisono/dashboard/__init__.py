"""A local web page of running and finished studies.

    address.py    where it listens, and the address that opens it
    guard.py      who may ask: this machine, by this name, with this token, to read
    catalogue.py  which runs lie under the folders, each by an opaque identifier
    summary.py    what a list says of a run
    detail.py     what a run's own page says
    eyes.py       what one viewer saw of it, and what that cost
    parties.py    who answered when; what each party has spent
    shapes.py     documents of the wrong shape break nothing
    app.py        paths and pages
    serve.py      the server

Pages are written whole on this side; a small script only fetches them again and puts the parts
that changed in place. The dashboard reads run folders and writes nothing.
"""
