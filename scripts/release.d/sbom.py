"""The crates that are compiled into the programs, as SPDX 2.3.

    sbom.py SOURCE VENDORED TARGET NAME > NAME.spdx.json

What cargo itself says: the crates of its resolved graph for this target, without those that only tests or the build use,
with the digests of Cargo.lock. Nothing in it depends on when or where it is made.
"""

import json
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
PROGRAMS = ("eggo-bundle", "eggo-install")


def main(source: str, vendored: str, target: str, name: str) -> None:
    graph = metadata(source, vendored, target)
    crates = {crate["id"]: crate for crate in graph["packages"]}
    needs = {node["id"]: linked(node, crates) for node in graph["resolve"]["nodes"]}
    programs = [id for id, crate in crates.items() if crate["name"] in PROGRAMS and crate["source"] is None]
    inside = closure(programs, needs)
    digests = lock_digests(source)
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"urn:eggo:release:{name}",
        "creationInfo": {"created": commit_time(), "creators": ["Tool: scripts/release"]},
        "packages": [package(crates[id], digests) for id in inside],
        "relationships": [relationship("SPDXRef-DOCUMENT", "DESCRIBES", spdx_id(crates[id])) for id in programs]
        + [relationship(spdx_id(crates[id]), "DEPENDS_ON", spdx_id(crates[need])) for id in inside for need in needs[id]],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


def metadata(source: str, vendored: str, target: str) -> Json:
    vendor = ["--config", 'source.crates-io.replace-with="vendor"', "--config", f'source.vendor.directory="{vendored}"']
    command = [
        "cargo",
        "metadata",
        "--format-version=1",
        "--frozen",
        f"--filter-platform={target}",
        f"--manifest-path={source}/Cargo.toml",
        *vendor,
    ]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def linked(node: Json, crates: dict[str, Json]) -> list[str]:
    """The ids of the crates that get into the program with this one; macros of the compiler do not."""
    normal = (need["pkg"] for need in node["deps"] if any(kind["kind"] is None for kind in need["dep_kinds"]))
    return sorted(id for id in normal if not any("proc-macro" in target["kind"] for target in crates[id]["targets"]))


def closure(roots: list[str], needs: dict[str, list[str]]) -> list[str]:
    found, rest = set(), list(roots)
    while rest:
        id = rest.pop()
        if id not in found:
            found.add(id)
            rest += needs[id]
    return sorted(found)


def lock_digests(source: str) -> dict[tuple[str, str], str]:
    with open(f"{source}/Cargo.lock", "rb") as file:
        lock = tomllib.load(file)
    return {(crate["name"], crate["version"]): crate["checksum"] for crate in lock["package"] if "checksum" in crate}


def package(crate: Json, digests: dict[tuple[str, str], str]) -> Json:
    name, version = crate["name"], crate["version"]
    described = {
        "SPDXID": spdx_id(crate),
        "name": name,
        "versionInfo": version,
        "downloadLocation": f"https://crates.io/api/v1/crates/{name}/{version}/download"
        if crate["source"]
        else "NOASSERTION",
        "filesAnalyzed": False,
        # `MIT/Apache-2.0` is how crates said OR before SPDX expressions
        "licenseDeclared": " ".join((crate["license"] or "NOASSERTION").replace("/", " OR ").split()),
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:cargo/{name}@{version}",
            }
        ],
    }
    if (name, version) in digests:
        described["checksums"] = [{"algorithm": "SHA256", "checksumValue": digests[name, version]}]
    return described


def spdx_id(crate: Json) -> str:
    return f"SPDXRef-{crate['name']}-{crate['version']}".replace("_", "-").replace("+", "-")


def relationship(one: str, kind: str, other: str) -> Json:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def commit_time() -> str:
    seconds = subprocess.run(["git", "log", "-1", "--format=%ct"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


main(*sys.argv[1:])
