"""Files with keys: a bare secret, Java's key file, mqadmin's tools.yml; nothing of a broken one is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.client import Credentials, InvalidRequest
from rmqcli.client.wire.credentials import Keys, credentials_of, is_exposed, read_keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("s3cret-key\n", Keys(secret_key="s3cret-key")),
        ("s3cret key: x = y\r\nmore", Keys(secret_key="s3cret key: x = y")),
        ("# made by hand\nAccessKey = rocketmq2 \nSecretKey=12345678\n", Keys("rocketmq2", "12345678")),
        ("SecretKey=a=b\nAccessKey=k\nSecurityToken=t\n", Keys("k", "a=b", "t")),
        ("accessKey: rocketmq2\nsecretKey: 12345678\n", Keys("rocketmq2", "12345678")),
        ("secretKey: 'with: colon'\n", Keys(None, "with: colon")),
        ("\ufeffs3cret-key\r\n", Keys(secret_key="s3cret-key")),
        ("\ufeffAccessKey=k\r\nSecretKey=s\r\n", Keys("k", "s")),
        ("\ufeffaccessKey: k\r\nsecretKey: s\r\n", Keys("k", "s")),
    ],
)
def test_the_forms(tmp_path: Path, text: str, keys: Keys) -> None:
    path = tmp_path / "keys"
    path.write_text(text, newline="")
    assert read_keys(path) == keys


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no secret key"),
        (b"\nhidden\n", "holds no secret key"),
        (b"accessKey: hidden\n", "holds no secret key"),
        (b"secretKey: [hidden\n", "not a YAML file of keys"),
        (b"hidden\xff", "not a text in UTF-8"),
        (b"AccessKey=k\nSecretKey=hidden\xff", "not a text in UTF-8"),
        ("hidden".encode("utf-16"), "not a text in UTF-8"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(InvalidRequest, match=reason) as caught:
        read_keys(path)
    assert "hidden" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_comment_may_be_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes("# 密钥\nAccessKey=k\nSecretKey=s\n".encode("gbk"))
    assert read_keys(path) == Keys("k", "s")


def test_a_file_that_others_may_read_is_exposed(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("secret")
    for mode, exposed in ((0o600, False), (0o640, True), (0o604, True)):
        path.chmod(mode)
        assert is_exposed(path) is exposed


def test_the_account_of_a_file() -> None:
    keys = Keys("of-file", "secret", "token")
    assert credentials_of("given", keys) == Credentials("given", "secret", "token")
    assert credentials_of(None, keys, "other") == Credentials("of-file", "secret", "other")
    with pytest.raises(InvalidRequest, match="needs an access key"):
        credentials_of(None, Keys(secret_key="secret"))
