"""Profiles: what they hold, which one is in effect, and what a protected one asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.endpoints import Endpoint, resolve
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.profile_values import Profile, ProfilesFile, toml_text
from rmqcli.cli.profiles import load_file, load_profiles, profiles_path, save_file
from rmqcli.cli.settings import Given, Settings
from rmqcli.client import Credentials
from rmqcli.codec.ids import DEFAULT_NAMESRV
from tests.cli.conftest import Run

ALL = Profile("a:1;b:2", {"10.0.0.5:10911": "127.0.0.1:20911"}, 2.5, "billing", True, 'k"y', "söcret")


def save(**profiles: Profile) -> None:
    save_file(ProfilesFile(None, profiles))


def test_a_file_holds_all_of_a_profile() -> None:
    file = ProfilesFile("prod", {"prod": ALL, "test": Profile("c:3")})
    path = save_file(file)
    assert load_file() == file
    assert path.stat().st_mode & 0o777 == 0o600
    assert toml_text(ProfilesFile()) == ""


def test_the_order_of_name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve() == Endpoint(DEFAULT_NAMESRV, "the default")
    profiles = {"default": Profile("default:1"), "prod": Profile("prod:1"), "new": Profile("new:1")}
    save(**profiles)
    assert resolve().namesrv == "default:1"
    save_file(ProfilesFile("new", profiles))
    assert resolve() == Endpoint("new:1", "profile new", "new", profiles["new"])
    monkeypatch.setenv("RMQ_PROFILE", "prod")
    assert resolve().namesrv == "prod:1"
    monkeypatch.setenv("NAMESRV_ADDR", "java:1")
    assert resolve() == Endpoint("java:1", "NAMESRV_ADDR")
    monkeypatch.setenv("RMQ_NAMESRV", "ours:1")
    assert resolve().source == "RMQ_NAMESRV"
    assert resolve(None, "prod").namesrv == "prod:1"
    assert resolve("given:1", "prod") == Endpoint("given:1", "--namesrv", "prod", profiles["prod"])


def test_a_profile_that_is_not_there() -> None:
    with pytest.raises(CommandError) as caught:
        resolve(None, "prod")
    assert caught.value.code is ExitCode.NOT_FOUND


def test_options_win_over_the_profile() -> None:
    save(prod=ALL)
    assert Settings(Given(profile="prod")).client_options == {
        "namesrv": "a:1;b:2",
        "namespace": "",
        "timeout": 2.5,
        "address_map": {"10.0.0.5:10911": "127.0.0.1:20911"},
        "credentials": Credentials('k"y', "söcret"),
    }
    given = Given(profile="prod", timeout=9.0, map=("10.0.0.5:10911=x:1", "y=z"))
    options = Settings(given).producer_options
    assert options["send_timeout"] == options["timeout"] == 9.0
    assert options["address_map"] == {"10.0.0.5:10911": "x:1", "y": "z"}
    assert "address_map" not in Settings(Given(namesrv="a:1")).client_options


@pytest.mark.parametrize("variable", ["RMQ_NAMESRV", "NAMESRV_ADDR"])
def test_a_name_server_with_blanks(cli: Run, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "bad host")
    refused = cli("topic", "list")
    assert (refused.code, refused.err.count("\n")) == (ExitCode.USAGE, 1)
    assert refused.err.startswith(f"rmq: {variable}: 'bad host' is not an address")
    monkeypatch.setenv(variable, "a:1; b:port")
    assert "'b:port' is not an address" in cli("topic", "list").err
    assert Settings(Given(namesrv="a:1; b,http://c")).namesrv


def test_the_commands(cli: Run) -> None:
    assert cli("profile", "list").out == b""
    added = cli("--map", "10.0.0.5=127.0.0.1", "profile", "add", "prod", "a:1;b:2", "-g", "g1", "--protected")
    assert (added.code, added.out, added.err) == (0, b"", "")
    assert load_profiles()["prod"] == Profile(
        "a:1;b:2", {"10.0.0.5": "127.0.0.1"}, group="g1", protected=True
    )
    assert cli("profile", "set", "test", "c:3").code == 0
    assert cli("profile", "list").lines[1] == ["test", "c:3", "", "", "", "false", "", ""]
    assert cli("profile", "edit", "prod", "-n", "d:4", "--timeout", "7", "--unset", "group").code == 0
    assert cli("profile", "set", "prod", "e:5").code == 0
    assert cli("--json", "profile", "show", "prod").json == [
        {
            "name": "prod",
            "namesrv": "e:5",
            "map": ["10.0.0.5=127.0.0.1"],
            "timeout": 7.0,
            "group": None,
            "protected": True,
            "accessKey": None,
            "tls": "",
        }
    ]
    assert cli("profile", "use", "prod").code == 0
    assert cli("profile", "current").lines == [["prod", "e:5", "profile prod"]]
    assert cli("profile", "show").lines[0][0] == "prod"
    assert cli("profile", "remove", "prod").code == 0
    assert load_file() == ProfilesFile(None, {"test": Profile("c:3")})


def test_use_says_what_wins(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    save(prod=ALL)
    monkeypatch.setenv("NAMESRV_ADDR", "java:1")
    assert "NAMESRV_ADDR is set and wins" in cli("profile", "use", "prod").err


def test_what_commands_would_use(cli: Run) -> None:
    save(prod=ALL)
    rows = cli("profile", "show", "prod", "--resolved", "--timeout", "9").lines
    assert rows == [
        ["namesrv", "a:1;b:2", "profile prod"],
        ["map", "10.0.0.5:10911=127.0.0.1:20911", "profile prod"],
        ["timeout", "9.0", "--timeout"],
        ["group", "billing", "profile prod"],
        ["tls", "", "not set"],
        ["accessKey", 'k"y', "profile prod"],
        ["protected", "true", "profile prod"],
    ]
    assert cli("profile", "show", "--resolved").lines[0] == ["namesrv", DEFAULT_NAMESRV, "the default"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["add", "a b", "c:3"], 2, "invalid profile name 'a b'"),
        (["add", "prod", "c:3"], 2, "profile prod exists; change it with: rmq profile edit prod"),
        (["add", "new", "foo bar"], 2, "'foo bar' is not an address"),
        (["set", "new", " "], 2, "HOST:PORT must not be empty"),
        (["set", "new", "ns1:9876;ns2:port"], 2, "'ns2:port' is not an address: host:port is expected"),
        (["add", "new", "c:3", "--map", "x"], 2, "--map 'x': expected HOST:PORT=HOST:PORT"),
        (["add", "new", "c:3", "--map", "x=y:1"], 2, "x=y:1: expected HOST:PORT=HOST:PORT"),
        (["add", "new", "c:3", "-g", "a b"], 2, "a b"),
        (["edit", "prod"], 2, "nothing to change"),
        (["edit", "prod", "--unset", "namesrv"], 2, "--unset namesrv: expected one of map"),
        (["edit", "new", "--timeout", "1"], 4, "profile new not found"),
        (["use", "new"], 4, "profile new not found"),
        (["remove", "new"], 4, "profile new not found"),
        (["show"], 2, "no profile is in use"),
    ],
)
def test_refused(cli: Run, words: list[str], code: int, text: str) -> None:
    save(prod=ALL)
    refused = cli("profile", *words)
    assert (refused.code, refused.err.count("\n")) == (code, 1)
    assert text in refused.err
    assert load_profiles() == {"prod": ALL}


@pytest.mark.parametrize(
    "text",
    [
        "[profiles",
        "[profiles.prod]\n",
        "[profiles]\nprod = 1\n",
        "[profiles.prod]\nnamesrv = 5\n",
        '[profiles.prod]\nnamesrv = ""\n',
        '[profiles.prod]\nnamesrv = "a:1"\ntimeout = 0\n',
        '[profiles.prod]\nnamesrv = "a:1"\nprotekted = true\n',
    ],
)
def test_a_file_that_is_no_list_of_profiles(cli: Run, text: str) -> None:
    profiles_path().parent.mkdir(parents=True)
    profiles_path().write_text(text)
    result = cli("profile", "list")
    assert (result.code, result.err.count("\n")) == (ExitCode.FAILED, 1)
    assert str(profiles_path()) in result.err


def test_the_configuration_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RMQ_CONFIG_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert profiles_path() == tmp_path / "rmq" / "profiles.toml"


def test_the_account_of_mqadmin(cli: Run, tmp_path: Path) -> None:
    tools = tmp_path / "tools.yml"
    tools.write_text("accessKey: rocketmq2\nsecretKey: 12345678\n")
    assert "specify --namesrv" in cli("profile", "import", "prod", str(tools)).err
    imported = cli("-n", "a:1", "profile", "import", "prod", str(tools), "--protected")
    assert (imported.code, imported.out) == (0, b"")
    assert imported.err == f"rmq: others may read {tools}, which holds a secret key: chmod 600 {tools}\n"
    found = load_profiles()["prod"]
    assert found == Profile("a:1", protected=True, access_key="rocketmq2", secret_key="12345678")
    shown = cli("profile", "show", "prod").out
    assert b"rocketmq2" in shown and b"12345678" not in shown
    tools.write_text("accessKey: other\n")
    assert cli("profile", "import", "prod", str(tools)).code == ExitCode.USAGE
    tools.write_text("accessKey: [\n")
    assert cli("profile", "import", "prod", str(tools)).code == ExitCode.USAGE
    assert cli("profile", "import", "prod", str(tmp_path / "none.yml")).code == ExitCode.NOT_FOUND


def test_a_protected_cluster_wants_its_name(rmq: Run, topic: str, cluster: Cluster) -> None:
    """The environment names the name server here: a protected cluster is protected on every way to it."""
    save(prod=Profile(f"other:1;{cluster.namesrv}", protected=True), dev=Profile("dev:1"))
    refused = rmq("topic", "delete", topic, "--yes")
    assert refused.code == ExitCode.USAGE
    assert refused.err == (
        f"rmq: delete topic {topic} and all its messages: no terminal to confirm on; use --confirm prod\n"
    )
    wrong = rmq("topic", "delete", topic, "--yes", "--confirm", "dev")
    assert wrong.err == "rmq: --confirm dev: this cluster is prod\n"
    assert rmq("topic", "describe", topic).code == 0
    assert rmq("topic", "delete", topic, "--confirm", "prod").code == 0


def test_settings_of_a_protected_cluster_are_guarded(rmq: Run, topic: str, cluster: Cluster) -> None:
    group = f"G_{topic}"
    assert rmq("group", "create", group).code == 0
    save(prod=Profile(f"other:1;{cluster.namesrv}", protected=True))
    for words in (
        ["group", "update", group, "--retries", "3"],
        ["group", "create", group, "--replace"],
        ["topic", "update", topic, "--perm", "r"],
        ["topic", "create", topic, "--replace"],
    ):
        refused = rmq(*words)
        assert (refused.code, "use --confirm prod" in refused.err) == (ExitCode.USAGE, True), words
        assert rmq(*words, "--confirm", "prod").code == 0


def test_a_name_confirms_no_other_cluster(rmq: Run, topic: str, cluster: Cluster) -> None:
    wrong = rmq("topic", "delete", topic, "--confirm", "prod")
    assert (wrong.code, wrong.err) == (2, f"rmq: --confirm prod: this cluster is {cluster.namesrv}\n")


def test_verbose_names_the_source(rmq: Run, cluster: Cluster) -> None:
    assert f"name servers {cluster.namesrv} (from RMQ_NAMESRV)\n" in rmq("topic", "list", "-v").err


def test_the_group_of_a_profile(cli: Run, cluster: Cluster, topic: str) -> None:
    missing = cli("-n", cluster.namesrv, "consume", topic)
    assert (missing.code, missing.err.startswith("rmq: specify --group")) == (2, True)
    assert cli("profile", "add", "own", cluster.namesrv, "-g", "g_profile").code == 0
    read = cli("--profile", "own", "consume", topic, "--idle", "0")
    assert (read.code, read.out) == (0, b"")
    assert "g_profile" in cli("-n", cluster.namesrv, "group", "list").out.decode()
    examined = cli("--profile", "own", "doctor").lines
    assert [line[2] for line in examined if line[1] == "group"] == ["g_profile"]
