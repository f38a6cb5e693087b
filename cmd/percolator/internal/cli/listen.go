package cli

import (
	"context"
	"errors"
	"net"
)

// Listen opens the listener of a flag, unless refuse has something against its address.
func Listen(ctx context.Context, flag, address string, refuse func(ip net.IP) error) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, Usagef("--%s: %w", flag, err)
	}
	if err := refuse(l.Addr().(*net.TCPAddr).IP); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
