"""What hosts that share the machine's kernel see of its modules.

The machine's kernel may have everything built in and no /lib/modules. `modprobe br_netfilter` on a host succeeds all the
same when modules.builtin lists it, so we write that file from the kernel's own configuration.
"""

import gzip
import os
import platform

from .process import run, say

BUILTIN = {
    "OVERLAY_FS": "fs/overlayfs/overlay",
    "BRIDGE_NETFILTER": "net/bridge/br_netfilter",
    "BRIDGE": "net/bridge/bridge",
    "NF_CONNTRACK": "net/netfilter/nf_conntrack",
    "VXLAN": "drivers/net/vxlan/vxlan",
    "VETH": "drivers/net/veth",
    "IP_NF_IPTABLES": "net/ipv4/netfilter/ip_tables",
    "IP_NF_FILTER": "net/ipv4/netfilter/iptable_filter",
    "IP_NF_NAT": "net/ipv4/netfilter/iptable_nat",
    "IP_NF_MANGLE": "net/ipv4/netfilter/iptable_mangle",
    "IP_SET": "net/netfilter/ipset/ip_set",
    "NF_NAT": "net/netfilter/nf_nat",
    "NETFILTER_XT_SET": "net/netfilter/xt_set",
    "IP_VS": "net/netfilter/ipvs/ip_vs",
    "TUN": "drivers/net/tun",
    "NETFILTER_XT_MATCH_CONNTRACK": "net/netfilter/xt_conntrack",
    "NETFILTER_XT_TARGET_MASQUERADE": "net/netfilter/xt_MASQUERADE",
    "FUSE_FS": "fs/fuse/fuse",
    "NET_IPIP": "net/ipv4/ipip",
    "DUMMY": "drivers/net/dummy",
    "NF_TABLES": "net/netfilter/nf_tables",
    "BLK_DEV_LOOP": "drivers/block/loop",
}


def pretend(root: str) -> None:
    release = platform.release()
    if os.path.isdir(f"/lib/modules/{release}") or not os.path.exists("/proc/config.gz"):
        say("the machine's kernel has modules of its own: hosts see only what is loaded already")
        return
    with gzip.open("/proc/config.gz", "rt") as file:
        config = file.read()
    folder = os.path.join(root, "lib/modules", release)
    os.makedirs(folder, exist_ok=True)
    names = [name for option, name in BUILTIN.items() if f"\nCONFIG_{option}=y\n" in config]
    names += [name.replace("nf_conntrack", "nf_conntrack_ipv4") for name in names if name.endswith("/nf_conntrack")]
    with open(os.path.join(folder, "modules.builtin"), "w") as file:
        file.writelines(f"kernel/{name}.ko\n" for name in names)
    open(os.path.join(folder, "modules.order"), "w").close()
    with open(os.path.join(root, "boot", f"config-{release}"), "w") as file:
        file.write(config)
    run("depmod", "-b", root, release)
