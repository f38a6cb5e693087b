// Package serve tells those apart who connect to a server, so that none of them takes all that
// there is.
package serve

import (
	"net"
	"net/netip"
)

// Host returns the address without its port. All addresses of an IPv6 network of 64 bits are one: a
// single machine has as many as it wants.
func Host(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.Network() + ":" + addr.String()
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() {
		ip = netip.PrefixFrom(ip, 64).Masked().Addr()
	}
	return ip.String()
}
