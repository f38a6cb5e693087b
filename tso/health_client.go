package tso

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// AskStatus asks the server at address, host:port, what it knows about itself and its oracle. It
// does not follow the leader. The options are those of [Dial], whose WithTimeout bounds the whole
// call. Errors: ErrInvalidArgument, ErrUnavailable, ctx's.
func AskStatus(ctx context.Context, address string, opts ...DialOption) (_ *tsopb.GetStatusResponse, err error) {
	if err := checkAddress(address); err != nil {
		return nil, fmt.Errorf("tso: %w: %w", ErrInvalidArgument, err)
	}
	o := newDialOptions(opts)
	conn, err := o.dial(address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	resp, err := tsopb.NewStatusClient(conn).GetStatus(ctx, &tsopb.GetStatusRequest{})
	if err != nil {
		return nil, fmt.Errorf("tso: %w: %s: %w", ErrUnavailable, address, record.WithContext(ctx, err))
	}
	return resp, nil
}
