package serve

import (
	"net"
	"testing"
)

func TestHostsOfIPv6AreNetworks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "[::ffff:192.0.2.1]:2": "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:3": "2001:db8:1:2::", "[2001:db8:1:2::9]:4": "2001:db8:1:2::", "[fe80::1%eth0]:5": "fe80::",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			tcp = &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 5}
		}
		if got := Host(tcp); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
