from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.server.settings import Settings, SettingsError, load, options, require_safe_listen


def written(folder: Path, text: str) -> Path:
    path = folder / "moorage.toml"
    path.write_text(text)
    return path


def refusal(**given: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        load(**given)
    message = str(refused.value)
    assert "\n" not in message
    return message


S3 = {
    "MOORAGE_S3_LOCATIONS": "s3://lake/a, s3://lake/b/",
    "MOORAGE_S3_ACCESS_KEY_ID": "id",
    "MOORAGE_S3_SECRET_ACCESS_KEY": "swordfish",
}


def test_without_anything_said_the_defaults_hold() -> None:
    assert load() == Settings()
    assert (load().host, load().port, load().data) == ("127.0.0.1", 8080, Path("moorage-data"))


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = written(tmp_path, "port = 1\nhold_days = 1\nbody_limit_mb = 1\n")
    environ = {"MOORAGE_PORT": "2", "MOORAGE_HOLD_DAYS": "2"}
    settings = load(flags={"port": "3", "host": None}, environ=environ, config=config)
    assert (settings.port, settings.hold_days, settings.body_limit_mb) == (3, 2, 1)


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    assert load(environ={"MOORAGE_CONFIG": str(written(tmp_path, "port = 7"))}).port == 7


def test_text_becomes_what_the_setting_is() -> None:
    environ = {"MOORAGE_ACCESS_LOG": "true", "MOORAGE_STOP_TIMEOUT_SECONDS": "2.5", "MOORAGE_DATA": "/lake"}
    settings = load(environ=environ)
    assert (settings.access_log, settings.stop_timeout_seconds, settings.data) == (True, 2.5, Path("/lake"))


@pytest.mark.parametrize(
    ("given", "source", "right"),
    [
        ({"flags": {"port": "x"}}, "--port is 'x'", "0 to 65535"),
        ({"flags": {"port": 65536}}, "--port is 65536", "0 to 65535"),
        ({"flags": {"data": ""}}, "--data is ''", "a folder"),
        ({"flags": {"host": ""}}, "--host is ''", "an address"),
        ({"environ": {"MOORAGE_LOG_LEVEL": "loud"}}, "MOORAGE_LOG_LEVEL is 'loud'", "debug, info, warning or error"),
        ({"environ": {"MOORAGE_ACCESS_LOG": "maybe"}}, "MOORAGE_ACCESS_LOG is 'maybe'", "true or false"),
        ({"environ": {"MOORAGE_HOLD_DAYS": "-1"}}, "MOORAGE_HOLD_DAYS is '-1'", "from 0 to 3650"),
        ({"environ": {"MOORAGE_DATABASE": "mysql://h/d"}}, "MOORAGE_DATABASE", "postgresql:// URL"),
        ({"environ": {"MOORAGE_PUBLIC_URL": "lake.example"}}, "MOORAGE_PUBLIC_URL is 'lake.example'", "http(s)://"),
        ({"environ": {"MOORAGE_PUBLIC_URL": "https://l/?a"}}, "MOORAGE_PUBLIC_URL", "without a query"),
        ({"environ": {"MOORAGE_PUBLIC_URL": "https://l/"}}, "MOORAGE_PUBLIC_URL", "trailing slash"),
        ({"environ": {"MOORAGE_OTLP_ENDPOINT": "http://[::1"}}, "MOORAGE_OTLP_ENDPOINT", "http(s)://"),
        ({"environ": {**S3, "MOORAGE_S3_LOCATIONS": "lake"}}, "MOORAGE_S3_LOCATIONS is 'lake'", "s3://bucket/folder"),
        ({"environ": {**S3, "MOORAGE_S3_LOCATIONS": "s3://a/b,"}}, "MOORAGE_S3_LOCATIONS", "commas"),
        ({"environ": {**S3, "MOORAGE_S3_LOCATIONS": "s3://lake/../b"}}, "MOORAGE_S3_LOCATIONS", "s3://bucket/folder"),
        ({"environ": {**S3, "MOORAGE_S3_LOCATIONS": "s3://Lake/a"}}, "MOORAGE_S3_LOCATIONS", "s3://bucket/folder"),
        ({"environ": {**S3, "MOORAGE_S3_ENDPOINT": "minio:9000"}}, "MOORAGE_S3_ENDPOINT is 'minio:9000'", "http(s)://"),
        ({"environ": {**S3, "MOORAGE_S3_ENDPOINT": "http://h/path"}}, "MOORAGE_S3_ENDPOINT", "without a path"),
        ({"environ": {**S3, "MOORAGE_S3_ENDPOINT": "http://10.0.0.1:9000"}}, "MOORAGE_S3_ENDPOINT", "s3_path_style"),
        ({"environ": {**S3, "MOORAGE_S3_ENDPOINT": "http://[::1]:9000"}}, "MOORAGE_S3_ENDPOINT", "s3_path_style"),
        ({"environ": {**S3, "MOORAGE_S3_REGION": "EU!"}}, "MOORAGE_S3_REGION is 'EU!'", "eu-north-1"),
        ({"environ": {**S3, "MOORAGE_S3_PATH_STYLE": "yes!"}}, "MOORAGE_S3_PATH_STYLE is 'yes!'", "true or false"),
        ({"environ": {**S3, "MOORAGE_S3_SECRET_ACCESS_KEY": ""}}, "MOORAGE_S3_LOCATIONS needs", "s3_secret_access_key"),
        ({"environ": {**S3, "MOORAGE_MANAGED_LOCATION": "s3://lake/c"}}, "MOORAGE_MANAGED_LOCATION", "in s3_locations"),
        ({"environ": {**S3, "MOORAGE_MANAGED_LOCATION": "/tables"}}, "MOORAGE_MANAGED_LOCATION", "an s3:// folder"),
        ({"environ": {"MOORAGE_S3_ACCESS_KEY_ID": "x"}}, "MOORAGE_S3_ACCESS_KEY_ID has no effect", "s3_locations"),
    ],
)
def test_a_wrong_value_is_told_its_source_and_what_would_be_right(
    given: dict[str, Any], source: str, right: str
) -> None:
    message = refusal(**given)
    assert message.startswith(source)
    assert right in message


def test_text_in_the_file_becomes_what_the_setting_is_too(tmp_path: Path) -> None:
    settings = load(config=written(tmp_path, 'port = "8081"\naccess_log = "true"'))
    assert (settings.port, settings.access_log) == (8081, True)


@pytest.mark.parametrize(
    ("line", "right"), [("port = true", "a port"), ("data = 1", "a folder"), ("host = 1", "an address")]
)
def test_what_the_setting_cannot_be_is_refused_in_the_file(tmp_path: Path, line: str, right: str) -> None:
    assert right in refusal(config=written(tmp_path, line))


def test_a_misspelt_setting_is_refused_with_the_right_spelling(tmp_path: Path) -> None:
    assert refusal(environ={"MOORAGE_PROT": "1"}) == "MOORAGE_PROT is not a setting; did you mean MOORAGE_PORT?"
    assert "did you mean hold_days?" in refusal(config=written(tmp_path, "hold_day = 3"))
    assert "did you mean --port?" in refusal(flags={"prt": 1})
    assert "did you mean port?" in refusal(config=written(tmp_path, "prot = 3"))


def test_a_name_like_nothing_is_told_all_there_is() -> None:
    assert all(option.variable in refusal(environ={"MOORAGE_XYZZY": "1"}) for option in options())


@pytest.mark.parametrize(("text", "problem"), [("port = ", "is not valid TOML"), (None, "cannot be read")])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str | None, problem: str) -> None:
    config = tmp_path / "none.toml" if text is None else written(tmp_path, text)
    message = refusal(config=config)
    assert str(config) in message
    assert problem in message


def test_what_kubernetes_leaves_in_the_environment_is_no_setting() -> None:
    left = {
        "MOORAGE_PORT": "tcp://10.0.0.1:8080",
        "MOORAGE_SERVICE_HOST": "10.0.0.1",
        "MOORAGE_SERVICE_PORT_HTTP": "8080",
        "MOORAGE_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert load(environ=left) == Settings()


def test_what_users_bring_lies_outside_of_the_catalogs_own_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for inside in (data, data / "in", tmp_path / "other" / ".." / "data" / "in"):
        assert "expected a folder outside" in refusal(flags={"data": str(data), "external_folder": str(inside)})
    (tmp_path / "data2").mkdir()
    for outside in (tmp_path, tmp_path / "data2"):
        assert load(flags={"data": str(data), "external_folder": str(outside)}).external_folder == outside


def test_a_folder_of_users_that_is_not_there_is_told_before_anybody_misses_tables(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for missing in (tmp_path / "lakes", tmp_path / "file"):
        assert "there is no such folder" in refusal(flags={"external_folder": str(missing)})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db/lake",
        "postgres://me:secret@[::1]:5433/lake?sslmode=require",
        "postgresql:///lake?host=/run/postgresql",
        "postgresql://me@/lake?host=/run/postgresql",
        "postgresql://one:5432,two:5433/lake",
    ],
)
def test_a_database_is_on_a_host_on_several_or_behind_a_socket(url: str) -> None:
    assert load(flags={"database": url}).database == url


@pytest.mark.parametrize(
    "url", ["postgresql://h:0/lake", "postgresql://h,i:99999/lake", "postgresql://[::1/lake", "db"]
)
def test_what_leads_to_no_database_is_refused(url: str) -> None:
    assert "expected a postgresql:// URL" in refusal(flags={"database": url})


def test_the_databases_password_is_never_shown() -> None:
    url = "postgresql://moorage:swordfish@db/lake"
    assert "swordfish" not in repr(load(flags={"database": url}))
    assert "swordfish" not in refusal(flags={"database": url.replace("postgresql", "mysql")})


def test_an_object_store_is_amazons_unless_an_endpoint_says_otherwise() -> None:
    account = load(environ={**S3, "MOORAGE_S3_REGION": "eu-north-1"}).s3
    assert account is not None
    assert (account.endpoint, account.path_style) == ("https://s3.eu-north-1.amazonaws.com", False)
    assert account.is_strict
    assert account.locations == ("s3://lake/a/", "s3://lake/b/")
    assert account.address_of("lake") == "https://lake.s3.eu-north-1.amazonaws.com"
    other = load(environ={**S3, "MOORAGE_S3_ENDPOINT": "http://minio:9000", "MOORAGE_S3_PATH_STYLE": "true"}).s3
    assert other is not None
    assert other.address_of("lake") == "http://minio:9000"
    assert not other.is_strict
    assert load().s3 is None


def test_the_secret_of_a_key_is_never_shown(tmp_path: Path) -> None:
    assert "swordfish" not in repr(load(environ=S3))
    assert "swordfish" not in repr(load(environ=S3).s3)
    config = written(tmp_path, "s3_secret_access_key = 7")
    assert refusal(config=config) == (
        f"s3_secret_access_key in {config} is invalid; expected the secret of the access key"
    )


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:9"), ("::1", "http://[::1]:9"), ("localhost", "http://localhost:9")],
)
def test_on_loopback_the_address_is_known_without_being_told(host: str, url: str) -> None:
    assert load(flags={"host": host, "port": 0}).url_at(9) == url


def test_the_public_address_is_the_one_that_was_set() -> None:
    assert load(flags={"host": "0.0.0.0", "public_url": "https://lake.example"}).url_at(9) == "https://lake.example"


def test_beyond_loopback_the_public_address_must_be_told() -> None:
    with pytest.raises(SettingsError, match=r"^refusing to listen on 0\.0\.0\.0: public_url is not set"):
        require_safe_listen(load(flags={"host": "0.0.0.0"}), has_authentication=True)


def test_of_two_reasons_not_to_listen_the_worse_is_told_first() -> None:
    with pytest.raises(SettingsError, match=r"authentication is off, .* also, public_url is not set"):
        require_safe_listen(load(flags={"host": "0.0.0.0"}), has_authentication=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "lake.example"])
def test_an_open_server_does_not_listen_to_the_world(host: str) -> None:
    settings = load(flags={"host": host, "public_url": "https://lake.example"})
    with pytest.raises(SettingsError, match=f"refusing to listen on {host}: authentication is off"):
        require_safe_listen(settings, has_authentication=False)
    require_safe_listen(settings, has_authentication=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_an_open_server_listens_to_its_own_machine(host: str) -> None:
    require_safe_listen(load(flags={"host": host}), has_authentication=False)


def test_every_setting_explains_itself() -> None:
    assert all(option.description for option in options())
