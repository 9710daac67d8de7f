"""Studies as files: what parties agree on, what each allows, and who they are.

    study.toml      the agreement                `file.load_study`, `build.build`
    policy.toml     what one party allows        `policy.load_policy`, `policy.require_allowed`
    NAME.csv        records, and their ledger    `data_set.data_set`, `data_set.ledger_for`
    NAME.card       a party's public keys        `keys.keygen`, `keys.load_identity`
    roster.toml     the cards of all parties     `roster.make_roster`, `roster.load_roster`

Reading files is light; `build` brings in what computes.
"""
