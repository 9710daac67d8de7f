"""Keys, cards and rosters: made once, readable by their owner alone, and checked word for word."""

import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from unisono.errors import InvalidInput
from unisono.studies.file import parse_study
from unisono.studies.keys import fingerprint, keygen, load_card, load_identity, load_node_key
from unisono.studies.roster import load_roster, make_roster


@pytest.fixture
def cards(tmp_path):
    return [keygen(tmp_path, name) for name in ("north", "south", "west")]


def test_keys_are_the_owners_alone(tmp_path):
    keygen(tmp_path / "keys", "north")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "keys").iterdir()}
    assert modes["north.signing"] == modes["north.node"] == 0o600
    assert set(modes) == {"north.signing", "north.node", "north.node.pub", "north.card"}


def test_the_signing_key_signs_for_the_roster(tmp_path, cards):
    members = make_roster(cards, tmp_path / "roster.toml")
    identity = load_identity(tmp_path, "south")
    assert identity.public == cards[1].signing_key == members.roster.keys[1]
    signature = identity.sign(b"message")
    assert members.roster.verify(1, signature, b"message")
    assert not members.roster.verify(0, signature, b"message")


def test_the_node_key_is_what_openssh_and_flower_read(tmp_path, cards):
    """Flower reads the private key by `load_ssh_private_key` and wants a NIST curve."""
    path = load_node_key(tmp_path, "north")
    private = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    line = (tmp_path / "north.node.pub").read_bytes()
    public = serialization.load_ssh_public_key(line)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(private.curve, ec.SECP384R1)
    assert private.public_key() == public
    assert line.startswith(b"ecdsa-sha2-nistp384 ")
    assert line.strip() == cards[0].node_key


@pytest.mark.parametrize("kind", ["signing", "node", "node.pub", "card"])
def test_nothing_is_overwritten(tmp_path, kind):
    keygen(tmp_path, "north")
    for other in {"signing", "node", "node.pub", "card"} - {kind}:
        (tmp_path / f"north.{other}").unlink()
    kept = (tmp_path / f"north.{kind}").read_bytes()
    with pytest.raises(InvalidInput, match="exists already: keys are never overwritten"):
        keygen(tmp_path, "north")
    assert (tmp_path / f"north.{kind}").read_bytes() == kept
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["", "../north", ".north", "a b", "x" * 65, 'n"'])
def test_names_are_plain(tmp_path, name):
    with pytest.raises(InvalidInput, match="use letters, digits"):
        keygen(tmp_path, name)


@pytest.mark.parametrize(("kind", "load"), [("signing", load_identity), ("node", load_node_key)])
def test_keys_that_cannot_be_used(tmp_path, cards, kind, load):
    path = tmp_path / f"north.{kind}"
    load(tmp_path, "north")
    with pytest.raises(InvalidInput, match="is missing: make keys with `unisono keygen`"):
        load(tmp_path, "nobody")
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match=r"read by others \(mode 644\): run `chmod 600"):
        load(tmp_path, "north")
    path.chmod(0o600)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole.replace(b"A", b"B")):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match="damaged or cut short"):
            load(tmp_path, "north")
    other = {"signing": "node", "node": "signing"}[kind]
    path.write_bytes((tmp_path / f"south.{other}").read_bytes())
    with pytest.raises(InvalidInput, match="is no "):
        load(tmp_path, "north")


def test_a_card_is_its_keys(tmp_path, cards):
    path = tmp_path / "north.card"
    assert load_card(path) == cards[0]
    text = path.read_text()
    other = (tmp_path / "south.card").read_text()

    def line(of, word):
        return next(one for one in of.splitlines() if one.startswith(word))

    for word in ("signing", "node", "name"):
        path.write_text(text.replace(line(text, word), line(other, word)))
        with pytest.raises(InvalidInput, match=r"north.card line 4: fingerprint: is not that of"):
            load_card(path)
    path.write_text(text.replace(line(text, "signing"), 'signing = "AAAA"'))
    with pytest.raises(InvalidInput, match="line 2: signing: is no Ed25519 key"):
        load_card(path)
    path.write_text(text.replace("ecdsa-sha2-nistp384 ", "ecdsa-sha2-nistp384 x"))
    with pytest.raises(InvalidInput, match="line 3: node: is no elliptic-curve key"):
        load_card(path)
    path.write_text(text.replace("fingerprint", "print"))
    with pytest.raises(InvalidInput, match="fingerprint: is missing"):
        load_card(path)


def test_fingerprints_can_be_read_out(cards):
    groups = cards[0].fingerprint.split("-")
    assert len(groups) == 8
    consonants = set("bdfghjklmnprstvz")
    assert all(
        set(group[::2]) <= consonants and set(group[1::2]) <= set("aiou") for group in groups
    )
    assert len({card.fingerprint for card in cards}) == 3
    once = fingerprint("north", bytes(32), b"line")
    assert once == fingerprint("north", bytes(32), b"line")
    assert once != fingerprint("nort", b"h" + bytes(32), b"line")
    assert once != fingerprint("north", bytes(31) + b"\1", b"line")


def test_a_roster_goes_round(tmp_path, cards, text):
    path = tmp_path / "roster.toml"
    made = make_roster(cards, path)
    loaded = load_roster(path)
    assert loaded == made
    assert loaded.roster.names == ("north", "south", "west")
    assert loaded.node_keys == tuple(card.node_key for card in cards)
    assert loaded.fingerprint in path.read_text()
    assert loaded.of_study(parse_study(text)) == loaded
    with pytest.raises(InvalidInput, match="never overwritten"):
        make_roster(cards, path)


def test_a_roster_is_the_same_in_whatever_order_its_cards_are_given(tmp_path, cards):
    """A shell sorts *.card by name, and a study names its parties as it likes."""
    texts = set()
    for number, chosen in enumerate([cards, cards[::-1], [cards[1], cards[0], cards[2]]]):
        path = tmp_path / f"{number}.toml"
        make_roster(chosen, path)
        texts.add(path.read_text())
    assert len(texts) == 1


def test_members_are_numbered_in_the_order_of_the_study(tmp_path, cards, text):
    file = parse_study(
        text.replace('"north"', '"new"').replace('"west"', '"north"').replace('"new"', '"west"')
    )
    assert file.names == ("west", "south", "north")
    members = make_roster(cards, tmp_path / "roster.toml").of_study(file)
    assert members.roster.names == file.names
    assert members.roster.keys == tuple(card.signing_key for card in cards[::-1])
    assert members.node_keys == tuple(card.node_key for card in cards[::-1])


def test_a_roster_is_for_the_parties_of_the_study(tmp_path, cards, text):
    members = make_roster(cards[:2], tmp_path / "roster.toml")
    with pytest.raises(InvalidInput, match="from the cards of the same parties"):
        members.of_study(parse_study(text))


def test_duplicates_are_refused(tmp_path, cards):
    copied = cards[1].model_copy(update={"name": "copy"})
    for twice in ([cards[0], cards[0]], [cards[1], copied]):
        with pytest.raises(InvalidInput, match="twice"):
            make_roster(twice, tmp_path / "roster.toml")
    one, other = cards[0], cards[1]
    same = {"node": one.node, "fingerprint": fingerprint("south", other.signing_key, one.node_key)}
    with pytest.raises(InvalidInput, match=r"parties\[2\].node: stands twice"):
        make_roster([one, other.model_copy(update=same)], tmp_path / "roster.toml")
    assert not (tmp_path / "roster.toml").exists()


def test_a_changed_roster_is_noticed(tmp_path, cards):
    path = tmp_path / "roster.toml"
    make_roster(cards, path)
    text = path.read_text()
    path.write_text(text.replace(cards[1].signing, cards[0].signing))
    with pytest.raises(InvalidInput) as caught:
        load_roster(path)
    assert "parties[2].fingerprint: is not that of south's keys" in str(caught.value)
    assert "parties[2].signing: stands twice" in str(caught.value)
    # A whole card exchanged, its own fingerprint right: the roster's is not.
    fresh = keygen(tmp_path / "mallory", "south")
    path.write_text(text.replace(cards[1].to_toml(), fresh.to_toml()))
    with pytest.raises(InvalidInput, match="line 1: fingerprint: is not that of these cards"):
        load_roster(path)
