package tso

import (
	"fmt"
	"net"
	"strconv"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// checkAddress returns an error unless address is a host:port that a client can dial.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%.140q is not host:port", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%.140q: the port is not between 1 and 65535", address)
	}
	if len(address) > record.MaxAddressBytes {
		return fmt.Errorf("%.140q… is longer than %d bytes", address, record.MaxAddressBytes)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("%q names no host", address)
	}
	return nil
}

// isLocal reports whether only this machine can reach l. A listener other than TCP (a Unix socket,
// a pipe in memory) is local.
func isLocal(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}
