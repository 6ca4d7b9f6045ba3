"""The account of a command line: where its keys come from, and that no secret is ever shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.profile_values import Profile, ProfilesFile
from rmqcli.cli.profiles import load_profiles, profiles_path, save_file
from rmqcli.cli.settings import Given, Settings
from rmqcli.client import Credentials
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.remoting.signature import Mac, is_signed
from tests.cli.conftest import Run
from tests.cli.servers.scripted import Peers
from tests.client.scripted import refuse

SECRET = "top-Secret-77"
ACL = "org.apache.rocketmq.acl.common.AclException: "


@pytest.fixture
def keys(tmp_path: Path) -> str:
    return written(tmp_path / "keys", f"{SECRET}\n")


def written(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def account(**given: Any) -> Credentials | None:
    found: Credentials | None = Settings(Given(namesrv="a:1", **given)).client_options.get("credentials")
    return found


def test_none_is_named() -> None:
    assert account() is None


def test_the_sources_of_keys(keys: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Credentials("rocketmq2", SECRET)
    assert account(access_key="rocketmq2", secret_key_file=keys) == expected
    both = written(tmp_path / "java", f"AccessKey=rocketmq2\nSecretKey={SECRET}\nSecurityToken=t\n")
    assert account(secret_key_file=both) == Credentials("rocketmq2", SECRET, "t")
    command = f"{sys.executable} -c 'print(open(\"{keys}\").read())'"
    assert account(access_key="rocketmq2", secret_command=command) == expected
    monkeypatch.setenv("RMQ_ACCESS_KEY", "rocketmq2")
    monkeypatch.setenv("RMQ_SECRET_KEY_FILE", keys)
    assert account() == expected
    monkeypatch.setenv("RMQ_SECRET_KEY", "of-variable")
    monkeypatch.setenv("RMQ_SECURITY_TOKEN", "token")
    assert account() == Credentials("rocketmq2", "of-variable", "token")
    assert account(secret_key_file=keys) == Credentials("rocketmq2", SECRET, "token")


def test_a_profile_has_an_account(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = {
        "kept": Profile("a:1", access_key="rocketmq2", secret_key=SECRET, security_token="t"),
        "file": Profile("a:1", access_key="rocketmq2", secret_key_file=keys),
    }
    save_file(ProfilesFile(None, profiles))
    assert account(profile="kept") == Credentials("rocketmq2", SECRET, "t")
    assert account(profile="file") == Credentials("rocketmq2", SECRET)
    assert account(profile="kept", access_key="other-key", secret_key_file=keys) == Credentials(
        "other-key", SECRET
    )
    monkeypatch.setenv("RMQ_ACCESS_KEY", "of-variable")
    monkeypatch.setenv("RMQ_SECRET_KEY", "secret-of-variable")
    assert account(profile="kept") == Credentials("of-variable", "secret-of-variable")
    assert account(profile="kept", access_key="rocketmq2") == Credentials("rocketmq2", SECRET, "t")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--access-key", "rocketmq3"], "no secret key for rocketmq3: give --secret-key-file"),
        (["--secret-key-file", "/nonexistent"], "/nonexistent: No such file"),
        (["--secret-command", "nonexistent-program x"], "No such file"),
        (["--access-key", "k", "--secret-command", "false"], "ended with exit code 1"),
        (["--access-key", "k", "--secret-command", "true"], "printed nothing"),
        (["--access-key", "k", "--secret-command", "'"], "No closing quotation"),
        (["--secret-command", "echo one-secret"], "a secret key needs an access key: name it with"),
        (["--secret-command", "echo x", "--secret-key-file", "y"], "cannot be combined"),
    ],
)
def test_what_gives_no_account(cli: Run, words: list[str], text: str) -> None:
    refused = cli("-n", "a:1", *words, "topic", "list")
    assert refused.code != 0
    assert text in refused.err
    assert "one-secret" not in refused.err


def test_a_file_that_others_may_read(cli: Run, keys: str) -> None:
    Path(keys).chmod(0o644)
    words = ["-n", "127.0.0.1:1", "--access-key", "rocketmq9", "--secret-key-file", keys, "topic", "list"]
    found = cli(*words)
    assert found.err.startswith(f"rmq: others may read {keys}, which holds a secret key: chmod 600 {keys}\n")
    assert cli(*words).err.count("others may read") == 0  # said once in a process


def test_profiles_keep_an_account(cli: Run, keys: str) -> None:
    assert cli("profile", "add", "p", "a:1", "--access-key", "rocketmq2", "--secret-key-file", keys).code == 0
    assert load_profiles()["p"] == Profile("a:1", access_key="rocketmq2", secret_key_file=keys)
    assert cli("profile", "edit", "p", "--secret-command", "pass rmq").code == 0
    assert load_profiles()["p"] == Profile("a:1", access_key="rocketmq2", secret_command="pass rmq")
    piped = cli("profile", "edit", "p", "--secret-key-file", "/dev/stdin", stdin=SECRET.encode())
    assert (piped.code, piped.out, piped.err) == (0, b"", "")
    found = load_profiles()["p"]
    # standard input of a test is a file; that of a pipe has no name to keep
    assert (found.access_key, found.secret_command) == ("rocketmq2", None)
    assert profiles_path().stat().st_mode & 0o777 == 0o600
    assert cli("profile", "edit", "p", "--unset", "keys").code == 0
    assert load_profiles()["p"] == Profile("a:1")


def test_keys_of_a_pipe_are_kept_in_the_profile(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rmqcli", "profile", "add", "p", "a:1", "--access-key", "rocketmq2"]
    done = subprocess.run(
        [*command, "--secret-key-file", "/dev/stdin"], input=SECRET.encode(), capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert load_profiles()["p"] == Profile("a:1", access_key="rocketmq2", secret_key=SECRET)


def test_requests_are_signed_and_no_secret_is_shown(
    rmq: Run, cluster: Cluster, topic: str, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run through commands of all kinds, with -v, JSON, failures and profiles."""
    monkeypatch.setenv("RMQ_SECURITY_TOKEN", f"{SECRET}-token")
    words = ["--access-key", "rocketmq2", "--secret-key-file", keys]
    save_file(ProfilesFile(None, {"p": Profile(cluster.namesrv, access_key="rocketmq2", secret_key=SECRET)}))
    runs = [
        [*words, "-v", "send", topic, "hello", "-k", "k"],
        [*words, "-v", "pull", topic],
        [*words, "--json", "pull", topic],
        [*words, "-v", "query", topic, "-k", "k"],
        [*words, "--json", "topic", "describe", "nowhere"],
        [*words, "-v", "group", "list"],
        [*words, "-v", "acl", "version"],
        [*words, "-v", "pull", "nowhere"],
        [*words, "-v", "-n", "127.0.0.1:1", "topic", "list"],
        [*words, "-v", "profile", "show", "--resolved"],
        ["--profile", "p", "-v", "topic", "list"],
        ["--profile", "p", "--json", "profile", "show", "p"],
        ["--profile", "p", "-v", "profile", "show", "--resolved"],
        ["profile", "list", "--json"],
        ["profile", "list"],
    ]
    signed = 0
    for run in runs:
        found = rmq(*run)
        assert SECRET not in found.err and SECRET.encode() not in found.out, run
        signed += "requests are signed as rocketmq2" in found.err
    assert signed > 5
    assert SECRET not in repr(load_profiles()["p"])


def test_a_refusal_names_key_resource_and_permission(
    cli: Run,
    peers: Peers,
    keys: str,
) -> None:
    remark = f"{ACL}No default permission for topic:orders, org.apache.X.checkPerm(X.java:1)"
    peers.both(R.GET_BROKER_CONFIG, refuse(1, remark))
    words = ["--access-key", "rocketmq2", "--secret-key-file", keys]
    refused = cli(*words, "broker", "config", "show", "-b", "broker-a")
    assert refused.code == ExitCode.NOT_PERMITTED
    assert "No default permission for topic:orders; SUB on topic orders is missing" in refused.err
    assert refused.err.endswith(" (signed as rocketmq2)\n") and "X.java" not in refused.err
    asked = next(one for one in peers.a.asked if one.code == R.GET_BROKER_CONFIG)
    assert is_signed(Mac(SECRET), asked)
    peers.both(R.GET_BROKER_CONFIG, refuse(16, "username cannot be null."))
    unsigned = cli("broker", "config", "show", "-b", "broker-a", "--json")
    assert unsigned.code == ExitCode.NOT_PERMITTED
    assert unsigned.error["message"].endswith(
        "the request is not signed; name an account with --access-key: rmq help account"
    )
    peers.both(R.GET_BROKER_CONFIG, refuse(16, "the broker is read-only"))
    assert "account" not in cli("broker", "config", "show", "-b", "broker-a").err
