"""`--command-config FILE`: a Java property file as the settings of a client of ours.

Every tool of the package calls `read_command_config` with the configuration class of the client that it will make. What
Java names differently is translated (JAAS, stores of type PEM); what cannot be used is refused with the remedy; what
means nothing here gives a warning. Passwords never get into a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, get_args, get_type_hints

import attrs
import javaproperties

from kafka_share.cli.jaas import PLAIN, SCRAM, parse_jaas
from kafka_share.cli.pem_stores import STORE_KEYS, tls_settings
from kafka_share.errors import ConfigurationError

_BY_THE_COMMAND: Final = ("bootstrap_servers",)
"""Settings that only the command line gives, as with Apache's tools."""
_MODULES: Final = {"PLAIN": PLAIN, "SCRAM-SHA-256": SCRAM, "SCRAM-SHA-512": SCRAM}
_HOST_NAME_KEY: Final = "ssl.endpoint.identification.algorithm"
_JAAS_KEY: Final = "sasl.jaas.config"
_PROVIDERS_KEY: Final = "config.providers"
_NAME: Final = re.compile(r"[a-zA-Z][\w.-]*")
_OTHER_MECHANISMS: Final = ("GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM")


@attrs.frozen
class CommandConfig:
    """`settings`: keyword arguments for the client, in our names; `warnings`: a sentence per key that does nothing."""

    settings: dict[str, Any] = attrs.field(factory=dict, repr=False)
    warnings: tuple[str, ...] = ()


def read_command_config(path: Path, client: type) -> CommandConfig:
    """Read the file for a client with this attrs class of settings.

    Raises `ConfigurationError`, which names file and key, for a file that cannot be read, a value of the wrong type, a
    key store in a format of Java's, and a SASL mechanism that needs Java code.
    """
    try:
        return settings_of(read_properties(path), client)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def read_properties(path: Path) -> dict[str, str]:
    """What stands in a Java property file. Raises `ConfigurationError` for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return {name: value for name, value in javaproperties.load(file).items() if name}
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}") from error
    except ValueError:
        pass  # its text has a piece of the file, which may be of a password
    raise ConfigurationError("no Java property file: it has a \\u without four hexadecimal digits")


def settings_of(properties: Mapping[str, str], client: type) -> CommandConfig:
    """Translate what stands in a property file; see `read_command_config`."""
    if _PROVIDERS_KEY in properties:
        raise ConfigurationError(f"{_PROVIDERS_KEY} names Java classes, which cannot run here: write the values out")
    converters = _converters(client)
    settings: dict[str, Any] = {}
    warnings: list[str] = []
    for name, value in properties.items():
        key = name.replace(".", "_")
        if name in STORE_KEYS or name in (_HOST_NAME_KEY, _JAAS_KEY):
            continue
        if key in _BY_THE_COMMAND:
            warnings.append(f"{name} is ignored: --bootstrap-server says where the cluster is")
        elif key not in converters:
            shown = name if value and _NAME.fullmatch(name) else "a line without a name and a value"
            warnings.append(f"{shown} is ignored: it is not a setting of this tool")
        else:
            settings[key] = converters[key](name, value)
    settings.update(_host_name_check(properties, warnings))
    settings.update(tls_settings(properties))
    settings.update(_login(properties, settings))
    return CommandConfig(settings, tuple(warnings))


_Converter = Callable[[str, str], str | int | bool]


def _converters(client: type) -> dict[str, _Converter]:
    """By the type of each setting; those that are Python objects cannot come from a file and have none."""
    types = get_type_hints(client)
    found: dict[str, _Converter] = {}
    for field in attrs.fields(client):
        of_setting = types[field.name]
        for kind, converter in _BY_TYPE.items():
            if kind is of_setting or kind in get_args(of_setting):
                found[field.name] = converter
    return found


def _truth(name: str, value: str) -> bool:
    text = value.strip()
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(f"{name} is true or false")
    return text.lower() == "true"


def _number(name: str, value: str) -> int:
    digits = value.strip()
    if not digits.removeprefix("-").isdecimal():
        raise ConfigurationError(f"{name} is a whole number")
    return int(digits)


def _text(name: str, value: str) -> str:
    return value if "password" in name else value.strip()


_BY_TYPE: Final[Mapping[type, _Converter]] = MappingProxyType({bool: _truth, int: _number, str: _text})


def _host_name_check(properties: Mapping[str, str], warnings: list[str]) -> dict[str, Any]:
    """Java switches the check of host names off by an empty algorithm."""
    algorithm = properties.get(_HOST_NAME_KEY)
    if algorithm is None:
        return {}
    if algorithm.strip().lower() not in ("", "https"):
        warnings.append(f"{_HOST_NAME_KEY} is taken for https: host names are checked as for web servers")
    return {"ssl_check_hostname": bool(algorithm.strip())}


def _login(properties: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """User and password out of the JAAS entry, for the mechanisms that have them."""
    if not str(settings.get("security_protocol", "")).upper().startswith("SASL_"):
        return {}
    mechanism = str(settings.get("sasl_mechanism", "")).upper()
    if not mechanism:
        raise ConfigurationError(
            f"sasl.mechanism is missing (Java takes GSSAPI, which is not supported here); "
            f"supported are {', '.join(_MODULES)}"
        )
    if mechanism not in _MODULES:
        shown = f" {mechanism}" if mechanism in _OTHER_MECHANISMS else ""
        raise ConfigurationError(
            f"sasl.mechanism{shown} cannot be set up from a property file; supported are {', '.join(_MODULES)}"
        )
    jaas = properties.get(_JAAS_KEY)
    if jaas is None:
        return {}
    module = parse_jaas(jaas)
    if module.name != _MODULES[mechanism]:
        raise ConfigurationError(
            f"{_JAAS_KEY} names another login module than {_MODULES[mechanism]}, which sasl.mechanism {mechanism} needs"
        )
    missing = [option for option in ("username", "password") if option not in module.options]
    if missing:
        raise ConfigurationError(f"{_JAAS_KEY} has no {' and no '.join(missing)}")
    return {
        "sasl_plain_username": module.options["username"],
        "sasl_plain_password": module.options["password"],
    }


def drop_unused(settings: dict[str, Any]) -> Iterator[str]:
    """Take out what the security protocol does not use; yields warnings.

    Java's clients do not look at it either, so files that tools share may have it. Our clients refuse it as a mistake.
    """
    protocol = str(settings.get("security_protocol", "PLAINTEXT")).upper()
    unused_prefixes = {"ssl_": not protocol.endswith("SSL"), "sasl_": not protocol.startswith("SASL_")}
    for prefix, is_unused in unused_prefixes.items():
        names = [name for name in settings if is_unused and name.startswith(prefix)]
        for name in names:
            del settings[name]
        if names and names != ["ssl_check_hostname"]:
            kind = prefix.removesuffix("_")
            yield f"what begins with {kind}. is ignored: security.protocol has no {'TLS' if kind == 'ssl' else 'SASL'}"
