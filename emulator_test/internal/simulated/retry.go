package simulated

import (
	"context"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// brokenStream is the Internal error that Google's client takes for a transient one.
const brokenStream = "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"

// repeated reports whether Google's client repeats a request that failed so.
func repeated(err error) bool {
	s, ok := status.FromError(err)
	return ok && (repeatedCode(s.Code()) || s.Code() == codes.Internal && strings.Contains(s.Message(), "RST_STREAM"))
}

func repeatedCode(c codes.Code) bool {
	return c == codes.DeadlineExceeded || c == codes.Unavailable || c == codes.Aborted
}

// repeat sends a request until it succeeds, fails for good or its context ends, with the pauses of
// Google's client: that which the store asks for, whatever the code, or its own.
func (c *Connection) repeat(ctx context.Context, attempts *store.Attempts, send func() (hash, error)) error {
	const first, longest, growth = 100 * time.Millisecond, 2 * time.Second, 1.2
	pause := first
	for {
		attempts.Sent()
		h, err := send()
		wait, asked := askedToWait(err)
		switch {
		case asked:
			pause = first
		case err == nil || !repeated(err):
			return err
		default:
			wait = h.with(pauseMark).within(pause)
			pause = min(time.Duration(float64(pause)*growth), longest)
		}
		if err := c.cluster.wait(ctx, wait); err != nil {
			return c.receive(ctx, err)
		}
	}
}

// askedToWait is how long an error asks to wait, if it does.
func askedToWait(err error) (wait time.Duration, asked bool) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}
