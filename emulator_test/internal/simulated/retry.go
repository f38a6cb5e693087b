package simulated

import (
	"context"
	"strings"
	"time"

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
// Google's client.
func (c *Connection) repeat(ctx context.Context, attempts *store.Attempts, send func() (hash, error)) error {
	const first, longest, growth = 100 * time.Millisecond, 2 * time.Second, 1.2
	for pause := first; ; pause = min(time.Duration(float64(pause)*growth), longest) {
		attempts.Sent()
		h, err := send()
		if err == nil || !repeated(err) {
			return err
		}
		if err := c.cluster.wait(ctx, h.with(pauseMark).within(pause)); err != nil {
			return c.receive(ctx, err)
		}
	}
}
