"""What the fuzzer has to know of this server: `schemathesis.toml` names the file."""

import schemathesis


@schemathesis.serializer("application/toml")
def toml(_, value):
    return str(value).encode()


@schemathesis.check
def no_defect(_, response, __):
    assert response.status_code != 500
