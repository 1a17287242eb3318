"""Makes the operator, account and user of jwt.conf anew. Needs the PyPI package nkeys; the keys sign nothing outside these tests."""
import base64, hashlib, json, os
import nkeys
from nkeys import PREFIX_BYTE_OPERATOR, PREFIX_BYTE_ACCOUNT, PREFIX_BYTE_USER

def pair(prefix):
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))

def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

def token(issuer, subject, name, nats):
    claims = {"iat": 1700000000, "iss": issuer.public_key.decode(), "name": name, "sub": subject.public_key.decode(), "nats": nats}
    digest = hashlib.new("sha512_256", json.dumps(claims).encode()).digest()
    claims["jti"] = base64.b32encode(digest).rstrip(b"=").decode()
    body = b64(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode()) + "." + b64(json.dumps(claims).encode())
    return body + "." + b64(issuer.sign(body.encode()))

operator, system, account, user = (
    pair(kind) for kind in (PREFIX_BYTE_OPERATOR, PREFIX_BYTE_ACCOUNT, PREFIX_BYTE_ACCOUNT, PREFIX_BYTE_USER)
)
anything = {"subs": -1, "data": -1, "payload": -1}
stored = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
limits = {**anything, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1, **stored}
operator_jwt = token(operator, operator, "tests", {"type": "operator", "version": 2})
# Without an account of its own the server does not start JetStream; that one may store nothing itself.
system_jwt = token(operator, system, "system", {"type": "account", "version": 2, "limits": {**limits, **dict.fromkeys(stored, 0)}})
account_jwt = token(operator, account, "pml", {"type": "account", "version": 2, "limits": limits})
user_jwt = token(account, user, "pml", {"type": "user", "version": 2, "pub": {}, "sub": {}, **anything})
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "operator.conf"), "w") as file:
    names = {pair: pair.public_key.decode() for pair in (system, account)}
    file.write(f"operator: {operator_jwt}\nsystem_account: {names[system]}\nresolver: MEMORY\n")
    file.write(f"resolver_preload: {{\n  {names[system]}: {system_jwt}\n  {names[account]}: {account_jwt}\n}}\n")
with open(os.path.join(here, "pml.creds"), "w") as file:
    file.write("-----BEGIN NATS USER JWT-----\n" + user_jwt + "\n------END NATS USER JWT------\n\n")
    file.write("-----BEGIN USER NKEY SEED-----\n" + user.seed.decode() + "\n------END USER NKEY SEED------\n")
