from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from moorage.server.secret_keys import read_secret_keys
from moorage.server.settings import Settings, SettingsError, load, options, require_safe_listen


def write_config(folder: Path, text: str) -> Path:
    path = folder / "moorage.toml"
    path.write_text(text)
    return path


def error_message(**given: Any) -> str:
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


def test_without_settings_the_defaults_apply() -> None:
    assert load() == Settings()
    assert (load().host, load().port, load().data) == ("127.0.0.1", 8080, Path("moorage-data"))


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path) -> None:
    config = write_config(tmp_path, "port = 1\nhold_days = 1\nbody_limit_mb = 1\n")
    environ = {"MOORAGE_PORT": "2", "MOORAGE_HOLD_DAYS": "2"}
    settings = load(flags={"port": "3", "host": None}, environ=environ, config=config)
    assert (settings.port, settings.hold_days, settings.body_limit_mb) == (3, 2, 1)


def test_the_environment_can_name_the_settings_file(tmp_path: Path) -> None:
    assert load(environ={"MOORAGE_CONFIG": str(write_config(tmp_path, "port = 7"))}).port == 7


def test_text_is_converted_to_the_type_of_the_setting() -> None:
    environ = {"MOORAGE_ACCESS_LOG": "true", "MOORAGE_STOP_TIMEOUT_SECONDS": "2.5", "MOORAGE_DATA": "/lake"}
    settings = load(environ=environ)
    assert (settings.access_log, settings.stop_timeout_seconds, settings.data) == (True, 2.5, Path("/lake"))


@pytest.mark.parametrize(
    ("given", "source", "expected"),
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
def test_the_error_for_a_wrong_value_names_its_source_and_what_is_expected(
    given: dict[str, Any], source: str, expected: str
) -> None:
    message = error_message(**given)
    assert message.startswith(source)
    assert expected in message


def test_text_in_the_settings_file_is_converted_too(tmp_path: Path) -> None:
    settings = load(config=write_config(tmp_path, 'port = "8081"\naccess_log = "true"'))
    assert (settings.port, settings.access_log) == (8081, True)


@pytest.mark.parametrize(
    ("line", "expected"), [("port = true", "a port"), ("data = 1", "a folder"), ("host = 1", "an address")]
)
def test_a_value_of_the_wrong_type_in_the_file_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    assert expected in error_message(config=write_config(tmp_path, line))


def test_a_misspelt_setting_is_refused_with_the_right_spelling(tmp_path: Path) -> None:
    assert error_message(environ={"MOORAGE_PROT": "1"}) == "MOORAGE_PROT is not a setting; did you mean MOORAGE_PORT?"
    assert "did you mean hold_days?" in error_message(config=write_config(tmp_path, "hold_day = 3"))
    assert "did you mean --port?" in error_message(flags={"prt": 1})
    assert "did you mean port?" in error_message(config=write_config(tmp_path, "prot = 3"))


def test_the_error_for_an_unknown_name_lists_all_settings() -> None:
    assert all(option.variable in error_message(environ={"MOORAGE_XYZZY": "1"}) for option in options())


@pytest.mark.parametrize(("text", "problem"), [("port = ", "is not valid TOML"), (None, "cannot be read")])
def test_the_error_for_an_unusable_settings_file_names_it(tmp_path: Path, text: str | None, problem: str) -> None:
    config = tmp_path / "none.toml" if text is None else write_config(tmp_path, text)
    message = error_message(config=config)
    assert str(config) in message
    assert problem in message


def test_service_variables_of_kubernetes_are_ignored() -> None:
    injected = {
        "MOORAGE_PORT": "tcp://10.0.0.1:8080",
        "MOORAGE_SERVICE_HOST": "10.0.0.1",
        "MOORAGE_SERVICE_PORT_HTTP": "8080",
        "MOORAGE_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert load(environ=injected) == Settings()


def test_the_external_folder_must_be_outside_the_data_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for inside in (data, data / "in", tmp_path / "other" / ".." / "data" / "in"):
        assert "expected a folder outside" in error_message(flags={"data": str(data), "external_folder": str(inside)})
    (tmp_path / "data2").mkdir()
    for outside in (tmp_path, tmp_path / "data2"):
        assert load(flags={"data": str(data), "external_folder": str(outside)}).external_folder == outside


def test_an_external_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for missing in (tmp_path / "lakes", tmp_path / "file"):
        assert "there is no such folder" in error_message(flags={"external_folder": str(missing)})


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
def test_a_database_url_names_one_host_several_hosts_or_a_socket(url: str) -> None:
    assert load(flags={"database": url}).database == url


@pytest.mark.parametrize(
    "url", ["postgresql://h:0/lake", "postgresql://h,i:99999/lake", "postgresql://[::1/lake", "db"]
)
def test_an_invalid_database_url_is_refused(url: str) -> None:
    assert "expected a postgresql:// URL" in error_message(flags={"database": url})


def test_the_databases_password_is_never_shown() -> None:
    url = "postgresql://moorage:swordfish@db/lake"
    assert "swordfish" not in repr(load(flags={"database": url}))
    assert "swordfish" not in error_message(flags={"database": url.replace("postgresql", "mysql")})


def test_the_object_store_is_amazon_s3_unless_an_endpoint_is_set() -> None:
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


def test_the_secret_access_key_is_never_shown(tmp_path: Path) -> None:
    assert "swordfish" not in repr(load(environ=S3))
    assert "swordfish" not in repr(load(environ=S3).s3)
    config = write_config(tmp_path, "s3_secret_access_key = 7")
    assert error_message(config=config) == (
        f"s3_secret_access_key in {config} is invalid; expected the secret of the access key"
    )


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:9"), ("::1", "http://[::1]:9"), ("localhost", "http://localhost:9")],
)
def test_on_loopback_the_url_is_derived_from_host_and_port(host: str, url: str) -> None:
    assert load(flags={"host": host, "port": 0}).url_at(9) == url


def test_a_public_url_that_is_set_is_used() -> None:
    assert load(flags={"host": "0.0.0.0", "public_url": "https://lake.example"}).url_at(9) == "https://lake.example"


def test_listening_beyond_loopback_requires_a_public_url() -> None:
    with pytest.raises(SettingsError, match=r"^refusing to listen on 0\.0\.0\.0: public_url is not set"):
        require_safe_listen(load(flags={"host": "0.0.0.0"}), has_authentication=True)


def test_missing_authentication_is_reported_before_a_missing_public_url() -> None:
    with pytest.raises(SettingsError, match=r"authentication is off, .* also, public_url is not set"):
        require_safe_listen(load(flags={"host": "0.0.0.0"}), has_authentication=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "lake.example"])
def test_a_server_without_authentication_refuses_to_listen_beyond_loopback(host: str) -> None:
    settings = load(flags={"host": host, "public_url": "https://lake.example"})
    with pytest.raises(SettingsError, match=f"refusing to listen on {host}: authentication is off"):
        require_safe_listen(settings, has_authentication=False)
    require_safe_listen(settings, has_authentication=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_server_without_authentication_may_listen_on_loopback(host: str) -> None:
    require_safe_listen(load(flags={"host": host}), has_authentication=False)


def test_every_setting_has_a_description() -> None:
    assert all(option.description for option in options())


def test_the_keys_of_secrets_come_from_one_source(tmp_path: Path) -> None:
    first, second = (b64encode(bytes([n]) * 32).decode() for n in (1, 2))
    file = tmp_path / "keys"
    file.write_text(f"{second}\n{first}\n")
    assert read_secret_keys(load()) == ()
    assert read_secret_keys(load(environ={"MOORAGE_SECRET_KEY": f"{first},{second}"})) == (b"\x01" * 32, b"\x02" * 32)
    assert read_secret_keys(load(flags={"secret_key_file": file})) == (b"\x02" * 32, b"\x01" * 32)
    assert read_secret_keys(load(flags={"secret_key_command": f"cat {file}"})) == (b"\x02" * 32, b"\x01" * 32)
    with pytest.raises(SettingsError, match="only one of them"):
        load(flags={"secret_key_file": file, "secret_key_command": "cat"})
    with pytest.raises(SettingsError, match="MOORAGE_SECRET_KEY is invalid") as wrong:
        load(environ={"MOORAGE_SECRET_KEY": "too-short-canary"})
    assert "canary" not in str(wrong.value)
    assert first not in repr(load(environ={"MOORAGE_SECRET_KEY": first}))
    for broken, reason in (
        ({"secret_key_file": tmp_path / "none"}, "No such file"),
        ({"secret_key_command": "false"}, "status 1"),
    ):
        with pytest.raises(SettingsError, match=reason):
            read_secret_keys(load(flags=broken))


OIDC = {"MOORAGE_AUTH": "on", "MOORAGE_OIDC_ISSUERS": "https://a.example, https://b.example"}


def test_each_issuer_has_a_client_for_browsers_unless_its_id_is_empty() -> None:
    settings = load(environ={**OIDC, "MOORAGE_OIDC_CLIENT_ID": "one, two", "MOORAGE_OIDC_CLIENT_SECRET": ", swordfish"})
    found = [(client.issuer, client.client_id, client.client_secret) for client in settings.browser_clients]
    assert found == [("https://a.example", "one", None), ("https://b.example", "two", "swordfish")]
    assert "swordfish" not in repr(settings) + repr(settings.browser_clients)
    only = load(environ={**OIDC, "MOORAGE_OIDC_CLIENT_ID": ",two"}).browser_clients
    assert [(client.issuer, client.client_secret) for client in only] == [("https://b.example", None)]
    assert load(environ=OIDC).browser_clients == ()


@pytest.mark.parametrize(
    ("environ", "part"),
    [
        ({**OIDC, "MOORAGE_OIDC_CLIENT_ID": "one"}, "MOORAGE_OIDC_CLIENT_ID is 'one'; expected the ids"),
        ({"MOORAGE_AUTH": "on", "MOORAGE_OIDC_CLIENT_ID": "one"}, "needs oidc_issuers"),
        ({**OIDC, "MOORAGE_AUTH": "auto", "MOORAGE_OIDC_CLIENT_ID": "one,two"}, "has no effect without --auth on"),
        ({**OIDC, "MOORAGE_OIDC_CLIENT_SECRET": "a,b"}, "needs oidc_client_id"),
        (
            {**OIDC, "MOORAGE_OIDC_CLIENT_ID": "one,two", "MOORAGE_OIDC_CLIENT_SECRET": "swordfish"},
            "MOORAGE_OIDC_CLIENT_SECRET is invalid",
        ),
    ],
)
def test_clients_for_browsers_that_do_not_fit_are_refused(environ: dict[str, str], part: str) -> None:
    message = error_message(environ=environ)
    assert part in message
    assert "swordfish" not in message
