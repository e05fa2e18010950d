# Written by eggo-install. Lets this node itself reach services where none of its routes covers them, as in a network
# without a default route: before kube-proxy's rules can turn a packet to one of the service's pods, the kernel looks for a
# route, and without any says `Network is unreachable`. Arguments: an address of services, their network, the node's own
# address, the mark by which a cleanup knows the route.
#
# The route leads to lo, and names the source. lo is always up, whatever an interface is called or does; what no rule turns
# elsewhere ends there, instead of asking the user's network for addresses that nobody there has. And with the node's own
# address as the source, answers from pods on other nodes find their way back.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
if ip route get "$1" >/dev/null 2>&1; then exit 0; fi
ip route replace "$2" dev lo src "$3" proto "$4" || ip route replace "$2" dev lo proto "$4"
