"""The lab's network: a bridge on this machine, a link and a namespace per host, and the air gap around them."""

import ipaddress
import json
import os
import re

from .process import run, succeeds
from .settings import Lab

UPSTREAM_PORTS = (5000, 8080)


def up(lab: Lab, opened: bool = False) -> None:
    """The bridge and the air gap. Hosts reach each other; when opened, also the stand-in upstream on the gateway."""
    if not succeeds("ip", "link", "show", lab.bridge):
        run("ip", "link", "add", lab.bridge, "type", "bridge")
    run("ip", "address", "replace", f"{lab.gateway}/24", "dev", lab.bridge)
    run("ip", "link", "set", lab.bridge, "up")
    air_gap(lab, opened)


def air_gap(lab: Lab, opened: bool) -> None:
    """Nothing is forwarded between the bridge and anything else, and hosts open no connection to this machine."""
    accept = f"ip daddr {lab.gateway} tcp dport {{ {', '.join(map(str, UPSTREAM_PORTS))} }} accept" if opened else ""
    rules = f"""
table inet {lab.table}
delete table inet {lab.table}
table inet {lab.table} {{
  chain forward {{ type filter hook forward priority 0; policy accept;
    iifname "{lab.bridge}" oifname != "{lab.bridge}" counter drop
    oifname "{lab.bridge}" iifname != "{lab.bridge}" counter drop
  }}
  chain input {{ type filter hook input priority 0; policy accept;
    iifname "{lab.bridge}" jump hosts
  }}
  chain hosts {{
    ct state established,related accept
    {accept}
    counter drop
  }}
}}
"""
    run("nft", "-f", "-", input=rules)


def down(lab: Lab) -> None:
    for name in links(lab):
        succeeds("ip", "link", "delete", name)
    for name in namespaces(lab):
        succeeds("ip", "netns", "delete", name)
    if table_exists(lab):
        run("nft", "delete", "table", "inet", lab.table)
    succeeds("ip", "link", "delete", lab.bridge)


def connect(lab: Lab, index: int, namespace: str) -> None:
    """A namespace of its own for a host, linked to the bridge. The hardware address follows from the address, so that a
    host which comes anew needs nobody to forget its old one."""
    address = lab.address(index)
    link = link_of(lab, index)
    if not os.path.exists(f"/run/netns/{namespace}"):
        run("ip", "netns", "add", namespace)
    if not succeeds("ip", "link", "show", link):
        run(
            "ip",
            "link",
            "add",
            link,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            namespace,
            "address",
            hardware_address(address),
        )
        run("ip", "link", "set", link, "master", lab.bridge)
    run("ip", "link", "set", link, "up")
    run("ip", "-n", namespace, "link", "set", "lo", "up")
    run("ip", "-n", namespace, "address", "replace", f"{address}/24", "dev", "eth0")
    run("ip", "-n", namespace, "link", "set", "eth0", "up")
    # Kubernetes looks for a default route to find a node's address; this one leads to the air gap
    run("ip", "-n", namespace, "route", "replace", "default", "via", lab.gateway)


def forget(namespace: str) -> None:
    """What a host did to its network goes with its power: bridges, tunnels, further addresses, rules. Its wire stays, and
    what is wrong with that."""
    if not os.path.exists(f"/run/netns/{namespace}"):
        return
    for link in json.loads(run("ip", "-json", "-netns", namespace, "link", "show")):
        if link["ifname"] not in ("lo", "eth0"):
            # the other end of a pair may have taken it along, and some belong to the kernel
            succeeds("ip", "-netns", namespace, "link", "delete", link["ifname"])
    succeeds("ip", "-netns", namespace, "address", "flush", "dev", "eth0")
    succeeds("ip", "netns", "exec", namespace, "nft", "flush", "ruleset")


def disconnect(lab: Lab, index: int, namespace: str) -> None:
    succeeds("ip", "link", "delete", link_of(lab, index))
    succeeds("ip", "netns", "delete", namespace)


def link_of(lab: Lab, index: int) -> str:
    """The machine's end of a host's link."""
    return f"{lab.bridge}-{index}"


def hardware_address(address: str) -> str:
    return "02:4c:" + ":".join(f"{byte:02x}" for byte in ipaddress.ip_address(address).packed)


def links(lab: Lab) -> list[str]:
    names = [link["ifname"] for link in json.loads(run("ip", "-json", "link", "show"))]
    return [name for name in names if re.fullmatch(rf"{lab.bridge}-\d+[xy]?", name)]


def namespaces(lab: Lab) -> list[str]:
    folder = "/run/netns"
    return [name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.startswith(lab.prefix)]


def table_exists(lab: Lab) -> bool:
    return succeeds("nft", "list", "table", "inet", lab.table)
